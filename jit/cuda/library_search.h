#pragma once
// Where the CUDA libraries are. Looking for them opens none: a warm process needs to know which NVRTC there is (its build is
// part of every binary's fingerprint) without paying the 100 ms that loading it costs.

#include <filesystem>
#include <string>
#include <vector>

namespace tunesmith {

/// Where to look besides the standard places. The caller hands in what the environment says; nothing is read here.
struct CudaFolders {
  std::vector<std::filesystem::path> given;     ///< asked for by the user: looked at first, any layout
  std::vector<std::filesystem::path> toolkits;  ///< what CUDA_HOME or CUDA_PATH name
  std::vector<std::filesystem::path> loader;    ///< what LD_LIBRARY_PATH names
  std::vector<std::filesystem::path> wheels;    ///< folders that pip installed into (--target, site-packages, a venv)
  std::filesystem::path root = "/";             ///< the standard places are below it; tests set it
};

/// A library file.
struct LibraryLocation {
  std::filesystem::path library;   ///< empty: in none of the places looked at
  int major = 0;                   ///< version in the file's name
  std::string found_in;            ///< which kind of place, e.g. "toolkit"
  std::vector<std::string> tried;  ///< every place looked at, in order; the last one is where it was found

  bool found() const noexcept { return !library.empty(); }
};

/// An NVRTC library file with its builtins beside it.
struct NvrtcLocation {
  std::filesystem::path library;   ///< empty: in none of the places looked at
  std::filesystem::path builtins;  ///< empty: not beside the library
  int major = 0, minor = -1;       ///< from the file names; minor is -1 when they do not tell
  std::string found_in;            ///< which kind of place, e.g. "toolkit"
  std::vector<std::string> tried;  ///< every place looked at, in order; the last one is where it was found

  bool found() const noexcept { return !library.empty(); }
};

/// In order: given folders; toolkit folders; <root>/usr/local/cuda*, the newest version first; loader folders and the
/// system's library folders; wheel folders. Among the places after the toolkit folders, version 13 anywhere wins over 12.
/// Each folder may be the library folder itself, a toolkit, or one that pip installed into. Never throws.
NvrtcLocation find_nvrtc(const CudaFolders& folders);
/// The location that a library file which is already known has: its version and its builtins.
NvrtcLocation describe_nvrtc(const std::filesystem::path& library);
/// cuBLASLt (libcublasLt.so.13, else .12), in the same places and order. `newest_major`: the CUDA version of the driver; a
/// library of a newer one would not start. Never throws.
LibraryLocation find_cublas_lt(const CudaFolders& folders, int newest_major);
/// "nvrtc libnvrtc=<build-id> libnvrtc-builtins=<build-id>", or "nvrtc none". Opens no library.
std::string nvrtc_identity(const NvrtcLocation& location);

/// Names to open the driver by, in order: the loader's, then places that a loader may not know.
std::vector<std::string> driver_candidates();

/// "a, b, c".
std::string join(const std::vector<std::string>& parts);

}  // namespace tunesmith
