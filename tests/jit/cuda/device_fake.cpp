// The scripted driver of device_fake.h, built as a shared library with the driver's exported names. With
// TUNESMITH_FAKE_OLD_DRIVER it lacks the functions of CUDA 12.

#include "tests/jit/cuda/device_fake.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace tunesmith;
using namespace tunesmith::cuda;

namespace {

FakeCuda state;
thread_local std::vector<ContextHandle> contexts;
thread_local CaptureMode capture_mode = CaptureMode::global;

constexpr const char* kernel_names[] = {"scale", "reduce"};

std::uintptr_t number(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }
std::string hex(const void* handle) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(number(handle)));
  return text;
}

Result made(const std::string& call, const std::string& arguments = {}) {
  const std::lock_guard lock(state.mutex);
  state.calls.push_back(arguments.empty() ? call : call + " " + arguments);
  if (state.failures > 0 && state.failing_call == call) {
    --state.failures;
    return state.failure;
  }
  return success;
}

Result made_unsafe(const std::string& call, const std::string& arguments = {}) {
  if (capture_mode != CaptureMode::relaxed) {
    const std::lock_guard lock(state.mutex);
    state.unsafe_calls.push_back(call);
  }
  return made(call, arguments);
}

Result in_context(Result result) { return result != success ? result : contexts.empty() ? 201 : success; }

Result on_stream(const std::string& call, StreamHandle stream, double us) {
  if (stream == nullptr && state.blocking_capture) return error_stream_capture_implicit;
  const Result result = in_context(made(call, "stream=" + hex(stream)));
  if (result == success) state.clock_us += us;
  return result;
}

// A kernel handle is 0x100 plus the kernel's number; a function handle has its context in the upper bits.
std::string kernel_of(std::uintptr_t handle) { return kernel_names[(handle & 0xff) % std::size(kernel_names)]; }
Result check_function(FunctionHandle function) {
  if (contexts.empty()) return 201;
  const std::uintptr_t context = number(function) >> 16;
  return context != 0 && context != number(contexts.back()) ? 400 : success;
}

std::string extents(unsigned x, unsigned y, unsigned z) {
  return " " + std::to_string(x) + "x" + std::to_string(y) + "x" + std::to_string(z);
}

Result launch(const std::string& call, FunctionHandle function, const LaunchConfig& config, void** params) {
  std::string text = kernel_of(number(function)) + extents(config.grid_x, config.grid_y, config.grid_z) +
                     extents(config.block_x, config.block_y, config.block_z) +
                     " smem=" + std::to_string(config.shared_bytes) + " stream=" + hex(config.stream);
  if (number(function) >> 16 == 0) text += " by-kernel";
  for (unsigned i = 0; i < config.attribute_count; ++i) {
    const LaunchAttribute& attribute = config.attributes[i];
    if (attribute.id == LaunchAttributeId::cooperative)
      text += " cooperative=" + std::to_string(attribute.value.cooperative);
    else
      text += " cluster" + extents(attribute.value.cluster.x, attribute.value.cluster.y, attribute.value.cluster.z);
  }
  if (!contexts.empty()) text += " context=" + hex(contexts.back());
  const Result result = made(call, text);
  if (result != success) return result;
  const std::lock_guard lock(state.mutex);
  state.last_params.assign(static_cast<const char*>(params[0]), state.param_bytes);
  state.clock_us += config.grid_x;  // one microsecond for each block
  return check_function(function);
}

template <typename Handle>
Handle new_handle(int& count, std::uintptr_t base) {
  const std::lock_guard lock(state.mutex);
  return reinterpret_cast<Handle>(base + static_cast<unsigned>(++count));
}

std::map<EventHandle, double> recorded_us;

// A number that the environment asks for, for programs that cannot call fake_cuda().
int asked_or(const char* variable, int otherwise) {
  const char* const asked = std::getenv(variable);
  return asked != nullptr ? std::atoi(asked) : otherwise;
}

}  // namespace

extern "C" {

FakeCuda* fake_cuda() { return &state; }

Result cuGetErrorName(Result result, const char** text) {
  *text = result == error_out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : result == 12345 ? nullptr : "CUDA_ERROR_SCRIPTED";
  return *text != nullptr ? success : error_invalid_value;
}
Result cuGetErrorString(Result result, const char** text) {
  *text = result == 12345 ? nullptr : "as the script says";
  return *text != nullptr ? success : error_invalid_value;
}
Result cuInit(unsigned) {
  const Result result = made("cuInit");
  return result != success ? result : asked_or("TUNESMITH_FAKE_INIT", success);
}
Result cuDriverGetVersion(int* version) {
  return *version = asked_or("TUNESMITH_FAKE_VERSION", state.driver_version), success;
}
Result cuDeviceGetCount(int* count) { return *count = asked_or("TUNESMITH_FAKE_GPUS", state.device_count), success; }
Result cuDeviceGet(DeviceHandle* device, int ordinal) { return *device = ordinal, made("cuDeviceGet"); }
Result cuDeviceGetName(char* name, int bytes, DeviceHandle) {
  return std::strncpy(name, state.name.c_str(), static_cast<std::size_t>(bytes)), success;
}
Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceHandle device) {
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<unsigned char>(0xa0 + i);
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return success;
}
Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle) {
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block: return *value = 1024, success;
    case DeviceAttribute::max_shared_memory_per_block: return *value = 49152, success;
    case DeviceAttribute::clock_rate_khz: return *value = 1980000, success;
    case DeviceAttribute::multiprocessor_count: return *value = state.sm_count, success;
    case DeviceAttribute::memory_clock_rate_khz: return *value = 3201000, success;
    case DeviceAttribute::memory_bus_bits: return *value = 6144, success;
    case DeviceAttribute::l2_cache_bytes: return *value = state.l2_bytes, success;
    case DeviceAttribute::max_threads_per_multiprocessor: return *value = 2048, success;
    case DeviceAttribute::compute_capability_major: return *value = state.major, success;
    case DeviceAttribute::compute_capability_minor: return *value = state.minor, success;
    case DeviceAttribute::max_shared_memory_per_multiprocessor: return *value = 233472, success;
    case DeviceAttribute::max_registers_per_multiprocessor: return *value = 65536, success;
    case DeviceAttribute::cooperative_launch: return *value = 1, success;
    case DeviceAttribute::max_shared_memory_per_block_optin: return *value = 232448, success;
    case DeviceAttribute::cluster_launch: return *value = state.major >= 9, success;
  }
  return error_invalid_value;
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceHandle) { return *bytes = std::size_t{141} << 30, success; }

Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  const Result result = made_unsafe("cuDevicePrimaryCtxRetain");
  if (result != success) return result;
  ++state.primary_references;
  return *context = fake_primary_context(device), success;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceHandle) { return --state.primary_references, success; }
Result cuCtxGetCurrent(ContextHandle* context) {
  return *context = contexts.empty() ? nullptr : contexts.back(), made("cuCtxGetCurrent");
}
Result cuCtxGetDevice(DeviceHandle* device) {
  return *device = static_cast<int>(number(contexts.back()) & 0xff), made("cuCtxGetDevice");
}
Result cuCtxPushCurrent_v2(ContextHandle context) {
  return contexts.push_back(context), made("cuCtxPushCurrent", hex(context));
}
Result cuCtxPopCurrent_v2(ContextHandle* context) {
  if (contexts.empty()) return 201;
  *context = contexts.back();
  return contexts.pop_back(), made("cuCtxPopCurrent");
}

Result cuMemAlloc_v2(Address* memory, std::size_t bytes) {
  const Result result = in_context(made_unsafe("cuMemAlloc", std::to_string(bytes)));
  if (result != success) return result;
  *memory = 0x700000000000 + 0x100000 * static_cast<unsigned>(++state.allocations);
  return success;
}
Result cuMemFree_v2(Address) {
  const Result result = in_context(made_unsafe("cuMemFree"));
  if (result == success) --state.allocations;
  return result;
}
Result cuMemcpyHtoDAsync_v2(Address, const void*, std::size_t, StreamHandle stream) {
  return on_stream("cuMemcpyHtoDAsync", stream, 5);
}
Result cuMemcpyDtoHAsync_v2(void*, Address, std::size_t, StreamHandle stream) {
  return on_stream("cuMemcpyDtoHAsync", stream, 5);
}
Result cuMemcpyDtoDAsync_v2(Address, Address, std::size_t, StreamHandle stream) {
  return on_stream("cuMemcpyDtoDAsync", stream, 5);
}
Result cuCtxResetPersistingL2Cache() { return in_context(made("cuCtxResetPersistingL2Cache")); }
Result cuMemsetD8Async(Address, unsigned char byte, std::size_t bytes, StreamHandle stream) {
  return on_stream("cuMemsetD8Async " + std::to_string(byte) + " " + std::to_string(bytes), stream, 1000);
}
Result cuMemsetD32Async(Address, unsigned word, std::size_t words, StreamHandle stream) {
  return on_stream("cuMemsetD32Async " + std::to_string(word) + " " + std::to_string(words), stream, 1000);
}

#ifndef TUNESMITH_FAKE_OLD_DRIVER
Result cuLibraryLoadData(LibraryHandle* library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  const Result result = made_unsafe("cuLibraryLoadData");
  if (result == success) *library = new_handle<LibraryHandle>(state.libraries, 0x3000);
  return result;
}
Result cuLibraryUnload(LibraryHandle) { return --state.libraries, made_unsafe("cuLibraryUnload"); }
#endif
Result cuLibraryGetKernel(KernelHandle* kernel, LibraryHandle, const char* name) {
  for (std::size_t i = 0; i < std::size(kernel_names); ++i)
    if (std::strcmp(kernel_names[i], name) == 0)
      return *kernel = reinterpret_cast<KernelHandle>(0x100 + i), made("cuLibraryGetKernel", name);
  return error_not_found;
}
Result cuKernelGetFunction(FunctionHandle* function, KernelHandle kernel) {
  if (contexts.empty()) return 201;
  *function = reinterpret_cast<FunctionHandle>(number(contexts.back()) << 16 | number(kernel));
  return made_unsafe("cuKernelGetFunction", kernel_of(number(kernel)));
}
Result cuKernelGetAttribute(int* value, FunctionAttribute attribute, KernelHandle kernel, DeviceHandle) {
  *value = attribute == FunctionAttribute::max_threads_per_block      ? 512
           : attribute == FunctionAttribute::shared_bytes             ? 1024
           : attribute == FunctionAttribute::max_dynamic_shared_bytes ? 49152 - 1024
                                                                      : 0;
  return made("cuKernelGetAttribute", kernel_of(number(kernel)));
}
Result cuKernelSetAttribute(FunctionAttribute attribute, int value, KernelHandle kernel, DeviceHandle) {
  const std::string name = kernel_of(number(kernel));
  const Result result =
      made("cuKernelSetAttribute", name + " " + std::to_string(static_cast<int>(attribute)) + "=" + std::to_string(value));
  if (result == success && attribute == FunctionAttribute::max_dynamic_shared_bytes) state.max_dynamic[name] = value;
  return result;
}
Result cuFuncGetAttribute(int* value, FunctionAttribute, FunctionHandle function) {
  return *value = 32, made("cuFuncGetAttribute", kernel_of(number(function)));
}

Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** params,
                      void**) {
  return launch("cuLaunchKernel", function,
                {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0}, params);
}
Result cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** params, void**) {
  return launch("cuLaunchKernelEx", function, *config, params);
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle function, int threads, std::size_t smem) {
  const auto limit = state.max_dynamic.find(kernel_of(number(function)));
  const std::size_t allowed = limit != state.max_dynamic.end() ? static_cast<std::size_t>(limit->second) : 49152 - 1024;
  *blocks = smem > allowed ? 0 : std::min(2048 / threads, static_cast<int>(233472 / (smem + 2048)));
  return made("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}
Result cuOccupancyMaxActiveClusters(int* clusters, FunctionHandle, const LaunchConfig* config) {
  *clusters = state.active_clusters;
  return config->attribute_count == 1 ? made("cuOccupancyMaxActiveClusters") : error_invalid_value;
}

Result cuTensorMapEncodeTiled(TensorMap* map, TensorMapType type, std::uint32_t rank, void* address,
                              const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t* box,
                              const std::uint32_t* steps, TensorMapInterleave interleave, TensorMapSwizzle swizzle,
                              TensorMapPromotion promotion, TensorMapFill fill) {
  std::string text = "type=" + std::to_string(static_cast<int>(type)) + " at=" + hex(address) + " sizes=";
  for (std::uint32_t i = 0; i < rank; ++i) text += std::to_string(sizes[i]) + ",";
  text += " strides=";
  for (std::uint32_t i = 1; i < rank; ++i) text += std::to_string(strides[i - 1]) + ",";
  text += " box=";
  for (std::uint32_t i = 0; i < rank; ++i) text += std::to_string(box[i]) + "/" + std::to_string(steps[i]) + ",";
  for (const int option :
       {static_cast<int>(interleave), static_cast<int>(swizzle), static_cast<int>(promotion), static_cast<int>(fill)})
    text += " " + std::to_string(option);
  if (!contexts.empty()) text += " context=" + hex(contexts.back());
  const Result result = in_context(made("cuTensorMapEncodeTiled", text));
  if (result != success || number(map) % 64 != 0) return result != success ? result : error_invalid_value;
  map->opaque[0] = number(address);
  for (std::size_t i = 1; i < std::size(map->opaque); ++i) map->opaque[i] = 0x7e7e000000000000 + i;
  return success;
}

Result cuStreamCreate(StreamHandle* stream, unsigned flags) {
  *stream = new_handle<StreamHandle>(state.streams, 0x5000);
  return in_context(made("cuStreamCreate", std::to_string(flags)));
}
Result cuStreamDestroy_v2(StreamHandle) { return --state.streams, made("cuStreamDestroy"); }
Result cuStreamSynchronize(StreamHandle stream) {
  if (stream == nullptr && state.blocking_capture) return error_stream_capture_implicit;
  return in_context(made_unsafe("cuStreamSynchronize", "stream=" + hex(stream)));
}
Result cuStreamIsCapturing(StreamHandle stream, CaptureStatus* status) {
  if (stream == nullptr && state.blocking_capture) return error_stream_capture_implicit;
  const bool capturing = stream != nullptr && stream == state.capturing_stream;
  return *status = capturing ? CaptureStatus::active : CaptureStatus::none, in_context(made("cuStreamIsCapturing"));
}
Result cuThreadExchangeStreamCaptureMode(CaptureMode* mode) { return std::swap(*mode, capture_mode), success; }

Result cuEventCreate(EventHandle* event, unsigned) {
  *event = new_handle<EventHandle>(state.events, 0x6000);
  return in_context(made("cuEventCreate"));
}
Result cuEventDestroy_v2(EventHandle) { return --state.events, made("cuEventDestroy"); }
Result cuEventRecord(EventHandle event, StreamHandle stream) {
  recorded_us[event] = state.clock_us;
  return made("cuEventRecord", "stream=" + hex(stream));
}
Result cuEventElapsedTime(float* ms, EventHandle start, EventHandle stop) {
  *ms = static_cast<float>((recorded_us[stop] - recorded_us[start]) / 1000);
  return made("cuEventElapsedTime");
}

Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags, int*) {
  *function = nullptr;
  if (!state.has_proc_address || flags != proc_address_legacy_stream) return error_not_found;
#ifndef TUNESMITH_FAKE_OLD_DRIVER
#define TUNESMITH_FIND(member, base, symbol, interface_version, signature) \
  if (std::strcmp(name, #base) == 0 && version == interface_version) *function = reinterpret_cast<void*>(&symbol);
  TUNESMITH_CUDA_FUNCTIONS(TUNESMITH_FIND)
#undef TUNESMITH_FIND
#endif
  made("cuGetProcAddress", std::string(name) + " " + std::to_string(version));
  return *function != nullptr ? success : error_not_found;
}

}  // extern "C"
