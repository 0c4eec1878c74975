#include "jit/cuda/cublas_lt_library.h"

#include <dlfcn.h>
#include <link.h>

#include <type_traits>
#include <utility>

#include "jit/loader_error.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

ErrorCode code_of_status(cublas_lt::Status status) {
  switch (status) {
    case cublas_lt::not_initialized: return ErrorCode::no_device;
    case cublas_lt::alloc_failed: return ErrorCode::out_of_memory;
    case cublas_lt::arch_mismatch:
    case cublas_lt::not_supported: return ErrorCode::unsupported;
    default: return ErrorCode::device_failed;
  }
}

}  // namespace

void* CublasLtLibrary::open(int newest_major) {
  if (location_.found()) {
    if (void* const library = dlopen(location_.library.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw Error(ErrorCode::not_found, "cuBLASLt was found at ", location_.library.string(),
                " but cannot be opened: ", loader_error());
  }
  for (int version = newest_major; version >= 12; --version) {
    const std::string soname = "libcublasLt.so." + std::to_string(version);
    location_.tried.push_back(soname + " by the loader");
    void* const library = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    link_map* map = nullptr;
    location_.library = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : soname;
    location_.major = version;
    location_.found_in = "loader";
    return library;
  }
  throw Error(ErrorCode::not_found, "no cuBLASLt (libcublasLt.so.13 or .12, and no newer than the driver's CUDA ",
              newest_major, ") was found; tried ", join(location_.tried),
              ". Install the CUDA toolkit or the wheel nvidia-cublas, or name its folder");
}

CublasLtLibrary::CublasLtLibrary(LibraryLocation location, int newest_major) : location_(std::move(location)) {
  void* const library = open(newest_major);
  const auto resolve = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr)
      throw Error(ErrorCode::not_found, location_.library.string(), " lacks ", symbol, "; cuBLASLt 12.0 or newer is needed");
  };
  resolve(functions_.create, "cublasLtCreate");
  resolve(functions_.destroy, "cublasLtDestroy");
  resolve(functions_.get_status_name, "cublasLtGetStatusName");
  resolve(functions_.get_version, "cublasLtGetVersion");
  resolve(functions_.description_create, "cublasLtMatmulDescCreate");
  resolve(functions_.description_destroy, "cublasLtMatmulDescDestroy");
  resolve(functions_.description_set, "cublasLtMatmulDescSetAttribute");
  resolve(functions_.layout_create, "cublasLtMatrixLayoutCreate");
  resolve(functions_.layout_destroy, "cublasLtMatrixLayoutDestroy");
  resolve(functions_.preference_create, "cublasLtMatmulPreferenceCreate");
  resolve(functions_.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  resolve(functions_.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  resolve(functions_.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  resolve(functions_.matmul, "cublasLtMatmul");
}

std::string CublasLtLibrary::version() const {
  // Since 11.0, the number is 10000 * major + 100 * minor + patch.
  const std::size_t number = functions_.get_version();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

void CublasLtLibrary::check(cublas_lt::Status status, const char* call, const std::string& doing) const {
  if (status == cublas_lt::success) [[likely]]
    return;
  const char* const name = functions_.get_status_name(status);
  throw Error(code_of_status(status), call, ": ", name != nullptr ? name : std::to_string(status), " while ", doing);
}

}  // namespace tunesmith
