// A scripted NVRTC, for tests of what is found and chosen: it has every entry point that Tunesmith resolves, but compiles
// nothing. Its version is in the name of its file: libnvrtc.so.12 is 12.0 and compiles for sm_70 to sm_90, libnvrtc.so.13
// is 13.0 and compiles for sm_75 to sm_120.

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace {

constexpr int failure = 11;  // NVRTC_ERROR_INTERNAL_ERROR
constexpr int archs_of_12[] = {70, 75, 80, 86, 89, 90};
constexpr int archs_of_13[] = {75, 80, 86, 89, 90, 100, 103, 120};

bool is_12() {
  static const char inside = 0;
  Dl_info facts{};
  return dladdr(&inside, &facts) != 0 && std::string_view(facts.dli_fname).ends_with(".12");
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int) { return "the scripted NVRTC compiles nothing"; }
int nvrtcVersion(int* major, int* minor) {
  *major = is_12() ? 12 : 13;
  *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(is_12() ? std::size(archs_of_12) : std::size(archs_of_13));
  return 0;
}
int nvrtcGetSupportedArchs(int* archs) {
  if (is_12())
    std::ranges::copy(archs_of_12, archs);
  else
    std::ranges::copy(archs_of_13, archs);
  return 0;
}
int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*, const char* const*) { return failure; }
int nvrtcDestroyProgram(void**) { return failure; }
int nvrtcCompileProgram(void*, int, const char* const*) { return failure; }
int nvrtcGetProgramLogSize(void*, std::size_t*) { return failure; }
int nvrtcGetProgramLog(void*, char*) { return failure; }
int nvrtcGetCUBINSize(void*, std::size_t*) { return failure; }
int nvrtcGetCUBIN(void*, char*) { return failure; }
int nvrtcGetPTXSize(void*, std::size_t*) { return failure; }
int nvrtcGetPTX(void*, char*) { return failure; }

}  // extern "C"
