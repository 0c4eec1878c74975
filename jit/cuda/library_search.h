#pragma once
// Finds the CUDA libraries without opening them. A process with a warm cache needs NVRTC's build-id, which is part of every
// binary's fingerprint, but must not pay the 100 ms that loading NVRTC takes.

#include <filesystem>
#include <string>
#include <vector>

namespace tunesmith {

/// Folders to search in addition to the standard ones. The caller passes the environment's settings; this code reads none.
struct CudaFolders {
  std::vector<std::filesystem::path> given;     ///< requested by the user: searched first, any layout
  std::vector<std::filesystem::path> toolkits;  ///< CUDA_HOME or CUDA_PATH
  std::vector<std::filesystem::path> loader;    ///< LD_LIBRARY_PATH
  std::vector<std::filesystem::path> wheels;    ///< folders that pip installed into (--target, site-packages, a venv)
  std::filesystem::path root = "/";             ///< prefix of the standard places; tests set it
};

/// A library file.
struct LibraryLocation {
  std::filesystem::path library;   ///< empty: not found
  int major = 0;                   ///< version in the file's name
  std::string found_in;            ///< kind of place, e.g. "toolkit"
  std::vector<std::string> tried;  ///< every place searched, in order; the last one is where it was found

  bool found() const noexcept { return !library.empty(); }
};

/// An NVRTC library file and its builtins.
struct NvrtcLocation {
  std::filesystem::path library;   ///< empty: not found
  std::filesystem::path builtins;  ///< empty: not in the library's folder
  int major = 0, minor = -1;       ///< from the file names; minor is -1 if they lack it
  std::string found_in;            ///< kind of place, e.g. "toolkit"
  std::vector<std::string> tried;  ///< every place searched, in order; the last one is where it was found

  bool found() const noexcept { return !library.empty(); }
};

/// Finds NVRTC. Searches, in order: given folders; toolkit folders; <root>/usr/local/cuda*, newest version first; loader
/// folders and the system's library folders; wheel folders. After the toolkit folders, version 13 in any place precedes 12.
/// Each folder may be a library folder, a toolkit, or a folder that pip installed into. Never throws.
NvrtcLocation find_nvrtc(const CudaFolders& folders);
/// Finds every NVRTC in these places, in the same order: find_nvrtc()'s first. Each file comes once. Never throws.
std::vector<NvrtcLocation> find_every_nvrtc(const CudaFolders& folders);
/// Returns the version and the builtins of a library file whose path is known.
NvrtcLocation describe_nvrtc(const std::filesystem::path& library);
/// Finds cuBLASLt (libcublasLt.so.13, else .12) in the same places and order. `newest_major` is the CUDA version of the
/// driver; a newer library would not start. Never throws.
LibraryLocation find_cublas_lt(const CudaFolders& folders, int newest_major);
/// Returns "nvrtc libnvrtc=<build-id> libnvrtc-builtins=<build-id>", or "nvrtc none". Opens no library.
std::string nvrtc_identity(const NvrtcLocation& location);

/// Lists the names to open the driver by, in order: the loader's name, then paths that a loader may not search.
std::vector<std::string> driver_candidates();

/// Joins strings with ", ".
std::string join(const std::vector<std::string>& parts);

}  // namespace tunesmith
