#pragma once
// NVRTC, opened.

#include <vector>

#include "jit/cuda/library_search.h"
#include "jit/cuda/nvrtc_api.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Immutable once made, thread-safe. The library stays loaded until the process ends: it starts threads and registers exit
/// handlers that must not lose their code.
class NvrtcLibrary {
 public:
  /// Opens the library that was found; when none was, what the loader knows as libnvrtc.so.13 or .12. The builtins beside it
  /// are opened first, because NVRTC asks the loader for them by bare name and wheels are on no loader path.
  /// Throws Error(no_compiler) listing what was tried.
  explicit NvrtcLibrary(NvrtcLocation location);

  const nvrtc::Functions& functions() const noexcept { return functions_; }
  const NvrtcLocation& location() const noexcept { return location_; }
  int major() const noexcept { return major_; }
  int minor() const noexcept { return minor_; }
  /// What compile_program accepts as sm_..., ascending; with the architecture- and family-specific targets.
  const std::vector<Arch>& archs() const noexcept { return archs_; }

 private:
  void* open();

  NvrtcLocation location_;
  nvrtc::Functions functions_ = {};
  int major_ = 0, minor_ = 0;
  std::vector<Arch> archs_;
};

}  // namespace tunesmith
