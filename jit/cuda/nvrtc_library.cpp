#include "jit/cuda/nvrtc_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "jit/loader_error.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// NVRTC lists plain numbers. Architecture-specific targets ("a") exist since 9.0, family-specific ones ("f") since 10.0 and
// CUDA 12.9 (CUDA C++ Programming Guide, "Feature Availability").
std::vector<Arch> with_suffixes(const std::vector<int>& numbers, bool has_families) {
  std::vector<Arch> archs;
  for (const int number : numbers) {
    const Arch plain{number / 10, number % 10, 0};
    archs.push_back(plain);
    if (number >= 90) archs.push_back({plain.major, plain.minor, 'a'});
    if (number >= 100 && has_families) archs.push_back({plain.major, plain.minor, 'f'});
  }
  std::sort(archs.begin(), archs.end());
  return archs;
}

}  // namespace

void* NvrtcLibrary::open() {
  std::vector<std::string> attempts = location_.tried;
  if (location_.found()) {
    if (!location_.builtins.empty()) dlopen(location_.builtins.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (void* const library = dlopen(location_.library.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw Error(ErrorCode::no_compiler, "NVRTC was found at ", location_.library.string(),
                " but cannot be opened: ", loader_error());
  }
  for (const char* soname : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    attempts.push_back(std::string(soname) + " by the loader");
    void* const library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) location_ = describe_nvrtc(map->l_name);
    location_.found_in = "loader";
    location_.tried = std::move(attempts);
    return library;
  }
  throw Error(ErrorCode::no_compiler, "no NVRTC (libnvrtc.so.13 or .12) was found; tried ", join(attempts),
              ". Install the CUDA toolkit or the wheel nvidia-cuda-nvrtc, or name its folder");
}

NvrtcLibrary::NvrtcLibrary(NvrtcLocation location) : location_(std::move(location)) {
  void* const library = open();
  const auto resolve = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr)
      throw Error(ErrorCode::no_compiler, location_.library.string(), " lacks ", symbol, "; NVRTC 12.0 or newer is needed");
  };
  resolve(functions_.get_error_string, "nvrtcGetErrorString");
  resolve(functions_.version, "nvrtcVersion");
  resolve(functions_.get_num_supported_archs, "nvrtcGetNumSupportedArchs");
  resolve(functions_.get_supported_archs, "nvrtcGetSupportedArchs");
  resolve(functions_.create_program, "nvrtcCreateProgram");
  resolve(functions_.destroy_program, "nvrtcDestroyProgram");
  resolve(functions_.compile_program, "nvrtcCompileProgram");
  resolve(functions_.get_program_log_size, "nvrtcGetProgramLogSize");
  resolve(functions_.get_program_log, "nvrtcGetProgramLog");
  resolve(functions_.get_cubin_size, "nvrtcGetCUBINSize");
  resolve(functions_.get_cubin, "nvrtcGetCUBIN");
  resolve(functions_.get_ptx_size, "nvrtcGetPTXSize");
  resolve(functions_.get_ptx, "nvrtcGetPTX");

  int count = 0;
  std::vector<int> numbers;
  if (functions_.version(&major_, &minor_) == nvrtc::success &&
      functions_.get_num_supported_archs(&count) == nvrtc::success) {
    numbers.resize(static_cast<std::size_t>(std::max(count, 0)));
    if (functions_.get_supported_archs(numbers.data()) == nvrtc::success)
      archs_ = with_suffixes(numbers, std::pair(major_, minor_) >= std::pair(12, 9));
  }
  if (archs_.empty())
    throw Error(ErrorCode::no_compiler, location_.library.string(), " does not list the architectures it supports");
}

}  // namespace tunesmith
