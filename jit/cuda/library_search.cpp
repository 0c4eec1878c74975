#include "jit/cuda/library_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "jit/cuda/build_id.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr const char* toolkit_target = "targets/sbsa-linux/lib";
constexpr const char* multiarch = "usr/lib/aarch64-linux-gnu";
#else
constexpr const char* toolkit_target = "targets/x86_64-linux/lib";
constexpr const char* multiarch = "usr/lib/x86_64-linux-gnu";
#endif

constexpr std::array<int, 2> versions{13, 12};

struct Place {
  fs::path folder;
  const char* kind;
};

/// A library: its file name without the version, and its folder within wheels.
struct LibraryName {
  std::string_view stem;
  std::array<const char*, 2> wheels;
};

constexpr LibraryName nvrtc_name{"libnvrtc.so.", {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}};
constexpr LibraryName cublas_lt_name{"libcublasLt.so.", {"nvidia/cu13/lib", "nvidia/cublas/lib"}};

std::string file_of(const LibraryName& name, int version) { return std::string(name.stem) + std::to_string(version); }

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<fs::path> folders_in(const fs::path& folder, std::string_view name_prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with(name_prefix)) found.push_back(entry->path());
  return found;
}

// Lists toolkit folders, newest first: "cuda-13.0", "cuda-12.9", "cuda-12", "cuda".
std::vector<fs::path> installed_toolkits(const fs::path& root) {
  const auto version = [](const fs::path& path) {
    std::pair<int, int> number{0, 0};
    int* digit = &number.first;
    for (const char c : path.filename().string()) {
      if (c >= '0' && c <= '9' && *digit < 100000) *digit = *digit * 10 + (c - '0');
      if (c == '.') digit = &number.second;
    }
    return number;
  };
  std::vector<fs::path> toolkits = folders_in(root / "usr/local", "cuda");
  std::sort(toolkits.begin(), toolkits.end(),
            [&](const fs::path& a, const fs::path& b) { return std::pair(version(a), b) > std::pair(version(b), a); });
  return toolkits;
}

// Returns the library's path in `folder`, which may be a library folder, a toolkit, a pip target or a virtual environment.
// Empty if it is not there.
fs::path library_below(const fs::path& folder, const LibraryName& name, int version) {
  if (!is_there(folder)) return {};
  const std::string file = file_of(name, version);
  for (const char* layout : {"", "lib64", "lib", toolkit_target, name.wheels[0], name.wheels[1]})
    if (fs::path library = *layout != '\0' ? folder / layout / file : folder / file; is_there(library)) return library;
  for (const fs::path& python : folders_in(folder / "lib", "python3"))
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const char* wheel : name.wheels)
        if (fs::path library = python / packages / wheel / file; is_there(library)) return library;
  return {};
}

// Visits every library file in the order of the search, until `accept` returns true.
void search(const LibraryName& name, std::span<const int> majors, const CudaFolders& folders,
            const std::function<bool(const LibraryLocation&)>& accept) {
  LibraryLocation location;
  const auto is_last = [&](const fs::path& library, int version, const Place& place) {
    location.library = library;
    location.major = version;
    location.found_in = place.kind;
    return accept(location);
  };
  std::vector<Place> places;
  for (const fs::path& folder : folders.given) places.push_back({folder, "given folder"});
  for (const fs::path& folder : folders.toolkits) places.push_back({folder, "toolkit"});
  for (const Place& place : places) {
    location.tried.push_back(place.folder.string());
    for (const int version : majors)
      if (const fs::path library = library_below(place.folder, name, version); !library.empty())
        if (is_last(library, version, place)) return;
  }

  places.clear();
  for (const fs::path& folder : installed_toolkits(folders.root)) places.push_back({folder, "toolkit"});
  if (places.empty()) location.tried.push_back((folders.root / "usr/local/cuda*").string());
  for (const fs::path& folder : folders.loader) places.push_back({folder, "loader path"});
  for (const char* folder : {multiarch, "usr/lib64", "usr/lib", "usr/local/lib", "lib64"})
    places.push_back({folders.root / folder, "system"});
  for (const fs::path& folder : folders.wheels) places.push_back({folder, "wheel"});
  for (const int version : majors)
    for (const Place& place : places) {
      if (version == majors.front()) location.tried.push_back(place.folder.string());
      const fs::path library = std::string_view(place.kind) == "system" ? place.folder / file_of(name, version)
                                                                        : library_below(place.folder, name, version);
      if (!library.empty() && is_there(library) && is_last(library, version, place)) return;
    }
  location = {{}, 0, {}, std::move(location.tried)};
  accept(location);
}

LibraryLocation find_first(const LibraryName& name, std::span<const int> majors, const CudaFolders& folders) {
  LibraryLocation first;
  search(name, majors, folders, [&](const LibraryLocation& location) {
    first = location;
    return true;
  });
  return first;
}

NvrtcLocation as_nvrtc(const LibraryLocation& found) {
  NvrtcLocation location;
  if (found.found()) location = describe_nvrtc(found.library);
  location.found_in = found.found_in;
  location.tried = found.tried;
  return location;
}

}  // namespace

NvrtcLocation describe_nvrtc(const fs::path& library) {
  NvrtcLocation location;
  location.library = library;
  for (const int version : versions)
    if (library.filename().string().starts_with("libnvrtc.so." + std::to_string(version))) location.major = version;
  // The file name of the builtins has the minor version. Try the names one by one, because listing a system folder with
  // thousands of entries is slow. A toolkit may link to NVRTC elsewhere, so the folder of the real file is searched too.
  std::error_code error;
  const fs::path real = fs::is_symlink(library, error) ? fs::canonical(library, error) : library;
  for (const fs::path& folder : {library.parent_path(), real.parent_path()})
    for (int minor = 15; minor >= 0 && location.builtins.empty(); --minor) {
      const fs::path builtins =
          folder / ("libnvrtc-builtins.so." + std::to_string(location.major) + "." + std::to_string(minor));
      if (!is_there(builtins)) continue;
      location.builtins = builtins;
      location.minor = minor;
    }
  return location;
}

NvrtcLocation find_nvrtc(const CudaFolders& folders) { return as_nvrtc(find_first(nvrtc_name, versions, folders)); }

std::vector<NvrtcLocation> find_every_nvrtc(const CudaFolders& folders) {
  std::vector<NvrtcLocation> every;
  std::set<fs::path> files;  // the same file may have several names: /usr/local/cuda is a link to /usr/local/cuda-13.0
  search(nvrtc_name, versions, folders, [&](const LibraryLocation& location) {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(location.library, error);
    if (location.found() && files.insert(error ? location.library : real).second) every.push_back(as_nvrtc(location));
    return false;
  });
  return every;
}

LibraryLocation find_cublas_lt(const CudaFolders& folders, int newest_major) {
  std::vector<int> usable(versions.begin(), versions.end());
  std::erase_if(usable, [&](int version) { return version > newest_major; });
  return find_first(cublas_lt_name, usable, folders);
}

std::string nvrtc_identity(const NvrtcLocation& location) {
  if (!location.found()) return "nvrtc none";
  std::string text = "nvrtc";
  for (const fs::path& file : {location.library, location.builtins}) {
    if (file.empty()) continue;
    // The build-id alone identifies the build; file names differ between a toolkit, a wheel and copies.
    const std::string id = build_id(file);
    const std::string file_name = file.filename().string();
    text += " " + (id.empty() ? file_name : file_name.substr(0, file_name.find(".so")) + "=" + id);
  }
  return text;
}

std::vector<std::string> driver_candidates() {
  return {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"};
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace tunesmith
