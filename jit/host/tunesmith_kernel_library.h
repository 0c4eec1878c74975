// The kernel library's side of tunesmith_host_abi.h. Included once, before the kernels and outside of their namespaces.
#pragma once

#include <initializer_list>  // of for loops in kernels

#include "tunesmith_host_abi.h"
#include "tunesmith_host_math.h"

namespace tunesmith_host_abi {

static const Services* services = nullptr;
static unsigned stack_shift = 0;

inline __attribute__((always_inline)) Thread& current_thread() {
  return *thread_at(reinterpret_cast<unsigned long long>(__builtin_frame_address(0)), stack_shift);
}

template <auto kernel>
struct Kernel;
template <typename Params, void (*kernel)(Params)>
struct Kernel<kernel> {
  static void invoke(const void* params) { kernel(*static_cast<const Params*>(params)); }
  static constexpr Entry entry(const char* name) { return {name, &invoke, sizeof(Params), alignof(Params)}; }
};
template <void (*kernel)()>
struct Kernel<kernel> {
  static void invoke(const void*) { kernel(); }
  static constexpr Entry entry(const char* name) { return {name, &invoke, 0, 1}; }
};

}  // namespace tunesmith_host_abi

#define __device__
#define __global__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
