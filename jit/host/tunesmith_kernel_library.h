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

/// What -fsanitize=alignment passes to its handler.
struct MisalignedObject {
  const char* file;
  unsigned line, column;
  const struct {
    unsigned short kind, info;
    char name[1];
  } * type;
  unsigned char log_alignment, access;
};

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

/// Called instead of the runtime library's function, which would print a message and go on.
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
  const auto& object = *static_cast<const tunesmith_host_abi::MisalignedObject*>(data);
  tunesmith_host_abi::services->misaligned_object(tunesmith_host_abi::current_thread(), object.type->name, object.file,
                                                  object.line, address, 1 << object.log_alignment);
}

#define __device__
#define __global__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
