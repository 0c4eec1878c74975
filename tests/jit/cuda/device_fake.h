#pragma once
// A scripted CUDA driver: a shared library with the driver's entry points, for tests without a GPU. Tests access its state
// with fake_cuda(), which the library exports.

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "jit/cuda/driver_api.h"

namespace tunesmith {

struct FakeCuda {
  // The machine.
  int device_count = 1, driver_version = 13000, major = 9, minor = 0, sm_count = 132, l2_bytes = 50 << 20;
  std::string name = "NVIDIA Fake";
  bool has_proc_address = true;

  // Errors: the next `failures` calls of `failing_call` return `failure`.
  std::string failing_call;
  cuda::Result failure = cuda::success;
  int failures = 0;

  // Effects of other code in the process.
  cuda::StreamHandle capturing_stream = nullptr;
  bool blocking_capture = false;  // a stream that synchronizes with the legacy default stream is capturing
  int active_clusters = 16;

  // Recorded calls.
  std::vector<std::string> calls;          // "cuLaunchKernel scale 4x1x1 32x1x1 smem=0 stream=0x0"
  std::vector<std::string> unsafe_calls;   // calls made while the thread's capture mode was not relaxed
  std::map<std::string, int> max_dynamic;  // by kernel
  std::size_t param_bytes = 16;            // number of bytes to record in last_params
  std::string last_params;                 // start of the last launch's parameter block
  int primary_references = 0, libraries = 0, allocations = 0, streams = 0, events = 0;
  double clock_us = 0;
  std::mutex mutex;

  int count(const std::string& call) {
    const std::lock_guard lock(mutex);
    int found = 0;
    for (const std::string& made : calls) found += made == call || made.starts_with(call + " ");
    return found;
  }
  int index_of(const std::string& call) {
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (calls[i].starts_with(call)) return static_cast<int>(i);
    return -1;
  }
};

/// Returns a context that an application made on a device, in addition to the primary one.
inline cuda::ContextHandle application_context(int device) {
  return reinterpret_cast<cuda::ContextHandle>(std::uintptr_t{0x2000} + static_cast<unsigned>(device));
}
inline cuda::ContextHandle fake_primary_context(int device) {
  return reinterpret_cast<cuda::ContextHandle>(std::uintptr_t{0x1000} + static_cast<unsigned>(device));
}

}  // namespace tunesmith
