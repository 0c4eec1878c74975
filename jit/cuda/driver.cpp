#include "jit/cuda/driver.h"

#include <dlfcn.h>

#include <vector>

#include "jit/cuda/library_search.h"
#include "jit/loader_error.h"

namespace tunesmith {
namespace {

using GetProcAddress = cuda::Result (*)(const char* name, void** function, int version, std::uint64_t flags, int* status);

ErrorCode code_of(cuda::Result result) {
  if (result >= cuda::error_stream_capture_unsupported && result <= cuda::error_stream_capture_wrong_thread)
    return ErrorCode::capturing;
  switch (result) {
    case cuda::error_out_of_memory: return ErrorCode::out_of_memory;
    case cuda::error_stub_library:
    case cuda::error_device_unavailable:
    case cuda::error_no_device:
    case cuda::error_invalid_device:
    case cuda::error_system_driver_mismatch:
    case cuda::error_compat_not_supported_on_device: return ErrorCode::no_device;
    default: return ErrorCode::device_failed;
  }
}

// After a kernel fault, every later call in the context fails.
bool poisons_context(cuda::Result result) {
  switch (result) {
    case cuda::error_illegal_address:
    case cuda::error_launch_timeout:
    case cuda::error_assert:
    case cuda::error_hardware_stack_error:
    case cuda::error_illegal_instruction:
    case cuda::error_misaligned_address:
    case cuda::error_invalid_address_space:
    case cuda::error_invalid_pc:
    case cuda::error_launch_failed: return true;
    default: return false;
  }
}

std::vector<std::string> places_of(const std::filesystem::path& library) {
  return library.empty() ? driver_candidates() : std::vector{library.string()};
}

struct OpenedDriver {
  void* handle = nullptr;
  std::string path, error;
};

OpenedDriver open_library(const std::filesystem::path& library) {
  OpenedDriver opened;
  for (const std::string& place : places_of(library)) {
    opened.handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened.handle != nullptr) break;
    if (const std::string message = loader_error(); opened.error.empty()) opened.error = message;
  }
  if (opened.handle == nullptr) return opened;
  opened.error.clear();
  Dl_info facts = {};
  void* const init = dlsym(opened.handle, "cuInit");
  opened.path = init != nullptr && dladdr(init, &facts) != 0 && facts.dli_fname != nullptr ? facts.dli_fname : "libcuda";
  return opened;
}

std::string describe_error(cuda::Result result, const char* error_name, const char* text) {
  std::string description = error_name != nullptr ? error_name : "CUDA error " + std::to_string(result);
  if (text != nullptr) description += std::string(" (") + text + ")";
  return description;
}

}  // namespace

DriverFacts probe_driver(const std::filesystem::path& library) {
  const OpenedDriver opened = open_library(library);
  DriverFacts facts;
  if (opened.handle == nullptr) {
    facts.loader_error = opened.error;
    return facts;
  }
  facts.path = opened.path;
  // These functions are older than CUDA 8 and keep their interface.
  const auto call = [&]<typename... Arguments>(const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<cuda::Result (*)(Arguments...)>(dlsym(opened.handle, name));
    return function != nullptr ? function(arguments...) : cuda::error_not_found;
  };
  if (call("cuDriverGetVersion", &facts.api_version) != cuda::success) facts.api_version = 0;
  facts.init = call("cuInit", 0U);
  if (facts.init != cuda::success) {
    const char *error_name = nullptr, *text = nullptr;
    call("cuGetErrorName", facts.init, &error_name);
    call("cuGetErrorString", facts.init, &text);
    facts.init_error = describe_error(facts.init, error_name, text);
  } else if (call("cuDeviceGetCount", &facts.gpus) != cuda::success) {
    facts.gpus = 0;
  }
  return facts;
}

std::shared_ptr<const Driver> Driver::open(const std::filesystem::path& library) {
  const OpenedDriver opened = open_library(library);
  if (opened.handle == nullptr)
    throw Error(ErrorCode::no_device, "no CUDA driver was found; tried ", join(places_of(library)), " (", opened.error, ")");
  void* const handle = opened.handle;

  std::shared_ptr<Driver> driver(new Driver);
  driver->path_ = opened.path;

  // cuGetProcAddress returns the interface of the requested version, whatever the driver's default is.
  const auto get_proc_address = reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
  const auto resolve = [&](auto& function, const char* name, const char* symbol, int version) {
    void* address = nullptr;
    int status = 0;
    if (get_proc_address == nullptr ||
        get_proc_address(name, &address, version, cuda::proc_address_legacy_stream, &status) != cuda::success)
      address = nullptr;
    if (address == nullptr) address = dlsym(handle, symbol);
    if (address == nullptr)
      throw Error(ErrorCode::no_device, "the CUDA driver ", driver->path_, " lacks ", symbol,
                  "; a driver for CUDA 12.0 (r525) or newer is needed");
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define TUNESMITH_RESOLVE(member, name, symbol, version, signature) \
  resolve(driver->functions_.member, #name, #symbol, version);
  TUNESMITH_CUDA_FUNCTIONS(TUNESMITH_RESOLVE)
#undef TUNESMITH_RESOLVE
  return driver;
}

int Driver::initialize() const {
  const cuda::Result result = functions_.init(0);
  if (result != cuda::success)
    throw Error(ErrorCode::no_device, "the CUDA driver ", path_, " cannot be initialized: cuInit: ", describe(result));
  int count = 0;
  check(functions_.device_get_count(&count), "cuDeviceGetCount");
  if (count <= 0) throw Error(ErrorCode::no_device, "the CUDA driver ", path_, " sees no GPU");
  return count;
}

int Driver::api_version() const {
  int version = 0;
  check(functions_.driver_get_version(&version), "cuDriverGetVersion");
  return version;
}

std::string Driver::describe(cuda::Result result) const {
  const char* error_name = nullptr;
  const char* text = nullptr;
  functions_.get_error_name(result, &error_name);
  functions_.get_error_string(result, &text);
  return describe_error(result, error_name, text);
}

void Driver::fail(cuda::Result result, const char* call, const std::string& doing) const {
  throw Error(code_of(result), call, ": ", describe(result), doing.empty() ? "" : " while ", doing,
              poisons_context(result)
                  ? "; a kernel launched earlier faulted, and this process can no longer use its CUDA context"
                  : "");
}

}  // namespace tunesmith
