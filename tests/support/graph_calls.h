#pragma once
// Captures and replays a CUDA graph, as an application does.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "jit/cuda/driver.h"

namespace tunesmith {

/// Driver functions that Tunesmith does not use itself.
struct GraphCalls {
  using Handle = void*;
  explicit GraphCalls(const Driver& driver) {
    void* const library = dlopen(driver.path().c_str(), RTLD_NOW);
    const auto resolve = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      ASSERT_NE(function, nullptr) << name;
    };
    resolve(begin_capture, "cuStreamBeginCapture_v2");
    resolve(end_capture, "cuStreamEndCapture");
    resolve(instantiate, "cuGraphInstantiateWithFlags");
    resolve(launch, "cuGraphLaunch");
    resolve(exec_destroy, "cuGraphExecDestroy");
    resolve(destroy, "cuGraphDestroy");
  }
  int (*begin_capture)(Handle stream, int mode) = nullptr;
  int (*end_capture)(Handle stream, Handle* graph) = nullptr;
  int (*instantiate)(Handle* exec, Handle graph, unsigned long long flags) = nullptr;
  int (*launch)(Handle exec, Handle stream) = nullptr;
  int (*exec_destroy)(Handle exec) = nullptr;
  int (*destroy)(Handle graph) = nullptr;
};

}  // namespace tunesmith
