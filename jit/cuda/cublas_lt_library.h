#pragma once
// cuBLASLt, opened.

#include <memory>
#include <string>

#include "jit/cuda/cublas_lt_api.h"
#include "jit/cuda/library_search.h"

namespace tunesmith {

/// Immutable once made, thread-safe. The library stays loaded until the process ends.
class CublasLtLibrary {
 public:
  /// Opens the library that was found; when none was, what the loader knows as libcublasLt.so.13 (if `newest_major` allows)
  /// or .12. Throws Error(not_found) listing what was tried, or naming the function that is missing.
  CublasLtLibrary(LibraryLocation location, int newest_major);

  const cublas_lt::Functions* operator->() const noexcept { return &functions_; }
  const LibraryLocation& location() const noexcept { return location_; }
  /// "13.0.2".
  std::string version() const;
  /// Throws Error(unsupported | out_of_memory | no_device | device_failed) with the call and the library's name for the
  /// status unless it is success; `doing` says what for.
  void check(cublas_lt::Status status, const char* call, const std::string& doing) const;

 private:
  void* open(int newest_major);

  LibraryLocation location_;
  cublas_lt::Functions functions_ = {};
};

}  // namespace tunesmith
