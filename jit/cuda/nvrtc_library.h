#pragma once
// The loaded NVRTC library.

#include <vector>

#include "jit/cuda/library_search.h"
#include "jit/cuda/nvrtc_api.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// NVRTC's functions. Immutable and thread-safe. The library stays loaded until the process ends, because it starts threads
/// and registers exit handlers whose code must remain.
class NvrtcLibrary {
 public:
  /// Opens the library at `location`; if that is empty, libnvrtc.so.13 or .12 by the loader. Opens the builtins first,
  /// because NVRTC loads them by their bare name and wheels are not on the loader's path. Throws Error(no_compiler) with the
  /// places tried.
  explicit NvrtcLibrary(NvrtcLocation location);

  const nvrtc::Functions& functions() const noexcept { return functions_; }
  const NvrtcLocation& location() const noexcept { return location_; }
  int major() const noexcept { return major_; }
  int minor() const noexcept { return minor_; }
  /// The sm_... targets that compile_program accepts, ascending, with architecture- and family-specific ones.
  const std::vector<Arch>& archs() const noexcept { return archs_; }

 private:
  void* open();

  NvrtcLocation location_;
  nvrtc::Functions functions_ = {};
  int major_ = 0, minor_ = 0;
  std::vector<Arch> archs_;
};

}  // namespace tunesmith
