#pragma once
// A plan of the extension module `_core` as the native launcher calls it, without the headers of either in the other.

#include <cstddef>

namespace tunesmith::python {

/// What the capsule of `Plan.launch_target` holds.
struct LaunchTarget {
  static constexpr const char* capsule_name = "tunesmith.launch_target";

  const void* plan;
  /// Enqueues the kernels on a CUDA stream; a plan of the host executor runs them, without the GIL. Returns 0, or -1 with a
  /// Python exception. `count` is the number of the plan's arrays.
  int (*launch)(const void* plan, void* const* arrays, std::size_t count, void* stream);
};

}  // namespace tunesmith::python
