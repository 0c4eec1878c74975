#pragma once
// The loaded cuBLASLt library.

#include <memory>
#include <string>

#include "jit/cuda/cublas_lt_api.h"
#include "jit/cuda/library_search.h"

namespace tunesmith {

/// cuBLASLt's functions and errors. Immutable and thread-safe. The library stays loaded until the process ends.
class CublasLtLibrary {
 public:
  /// Opens the library at `location`; if that is empty, libcublasLt.so.13 (if `newest_major` permits) or .12 by the loader.
  /// Throws Error(not_found) with the places tried or the missing function.
  CublasLtLibrary(LibraryLocation location, int newest_major);

  const cublas_lt::Functions* operator->() const noexcept { return &functions_; }
  const LibraryLocation& location() const noexcept { return location_; }
  /// Returns the version, e.g. "13.0.2".
  std::string version() const;
  /// Throws Error(unsupported | out_of_memory | no_device | device_failed) unless `status` is success. The message holds the
  /// call, the library's name for the status, and `doing`, the purpose of the call.
  void check(cublas_lt::Status status, const char* call, const std::string& doing) const;

 private:
  void* open(int newest_major);

  LibraryLocation location_;
  cublas_lt::Functions functions_ = {};
};

}  // namespace tunesmith
