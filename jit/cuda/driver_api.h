#pragma once
// The subset of the CUDA Driver API that Tunesmith uses, declared from its public documentation so that building needs no
// CUDA header. A test compares the values and layouts with <cuda.h> if that is installed.

#include <cstddef>
#include <cstdint>

namespace tunesmith::cuda {

using Result = int;                  ///< CUresult
using DeviceHandle = int;            ///< CUdevice
using Address = unsigned long long;  ///< CUdeviceptr
using ContextHandle = struct ContextTag*;
using LibraryHandle = struct LibraryTag*;
using KernelHandle = struct KernelTag*;
using FunctionHandle = struct FunctionTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;

inline constexpr Result success = 0;
inline constexpr Result error_invalid_value = 1;
inline constexpr Result error_out_of_memory = 2;
inline constexpr Result error_stub_library = 34;
inline constexpr Result error_device_unavailable = 46;
inline constexpr Result error_no_device = 100;
inline constexpr Result error_invalid_device = 101;
inline constexpr Result error_no_binary_for_gpu = 209;
inline constexpr Result error_not_found = 500;
inline constexpr Result error_illegal_address = 700;
inline constexpr Result error_launch_out_of_resources = 701;
inline constexpr Result error_launch_timeout = 702;
inline constexpr Result error_assert = 710;
inline constexpr Result error_hardware_stack_error = 714;
inline constexpr Result error_illegal_instruction = 715;
inline constexpr Result error_misaligned_address = 716;
inline constexpr Result error_invalid_address_space = 717;
inline constexpr Result error_invalid_pc = 718;
inline constexpr Result error_launch_failed = 719;
inline constexpr Result error_system_driver_mismatch = 803;
inline constexpr Result error_compat_not_supported_on_device = 804;
inline constexpr Result error_stream_capture_unsupported = 900;
inline constexpr Result error_stream_capture_implicit = 906;
inline constexpr Result error_stream_capture_wrong_thread = 908;
inline constexpr Result error_invalid_cluster_size = 912;

/// CUdevice_attribute.
enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_memory_per_block = 8,
  clock_rate_khz = 13,
  multiprocessor_count = 16,
  memory_clock_rate_khz = 36,
  memory_bus_bits = 37,
  l2_cache_bytes = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  cooperative_launch = 95,
  max_shared_memory_per_block_optin = 97,
  cluster_launch = 120,
};

/// CUfunction_attribute.
enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_bytes = 1,
  num_regs = 4,
  max_dynamic_shared_bytes = 8,
  non_portable_cluster_size_allowed = 14,
};

enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };  ///< CUstreamCaptureStatus
enum class CaptureMode : int { global = 0, relaxed = 2 };                  ///< CUstreamCaptureMode
inline constexpr unsigned stream_non_blocking = 1;                         ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned event_default = 0;                               ///< CU_EVENT_DEFAULT
inline constexpr std::uint64_t proc_address_legacy_stream = 1;             ///< CU_GET_PROC_ADDRESS_LEGACY_STREAM
/// CUlaunchAttributeID.
enum class LaunchAttributeId : int { cooperative = 2, cluster_dimension = 4, programmatic_stream_serialization = 6 };

/// CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill.
enum class TensorMapType : int { f16 = 6, f32 = 7, bf16 = 9 };
enum class TensorMapInterleave : int { none = 0 };
enum class TensorMapSwizzle : int { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };
enum class TensorMapPromotion : int { none = 0, bytes_64 = 1, bytes_128 = 2, bytes_256 = 3 };
enum class TensorMapFill : int { zero = 0 };

/// CUtensorMap. The driver and the GPU require an alignment of 64 bytes; CUDA 13 declares 128.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// CUuuid.
struct Uuid {
  unsigned char bytes[16];
};

/// CUlaunchAttribute.
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union Value {
    char pad[64];
    int cooperative;
    int programmatic_stream_serialization;
    struct {
      unsigned x, y, z;
    } cluster;
    std::uint64_t alignment;
  } value;
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

}  // namespace tunesmith::cuda

// Every function used: X(member, name, exported symbol, version of the interface, signature). cuGetProcAddress selects the
// interface by the version, which belongs to the exported symbol (cudaTypedefs.h lists them).
#define TUNESMITH_CUDA_FUNCTIONS(X)                                                                                       \
  X(get_error_name, cuGetErrorName, cuGetErrorName, 6000, (Result, const char**))                                         \
  X(get_error_string, cuGetErrorString, cuGetErrorString, 6000, (Result, const char**))                                   \
  X(init, cuInit, cuInit, 2000, (unsigned))                                                                               \
  X(driver_get_version, cuDriverGetVersion, cuDriverGetVersion, 2020, (int*))                                             \
  X(device_get_count, cuDeviceGetCount, cuDeviceGetCount, 2000, (int*))                                                   \
  X(device_get, cuDeviceGet, cuDeviceGet, 2000, (DeviceHandle*, int))                                                     \
  X(device_get_name, cuDeviceGetName, cuDeviceGetName, 2000, (char*, int, DeviceHandle))                                  \
  X(device_get_uuid, cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, (Uuid*, DeviceHandle))                                   \
  X(device_get_attribute, cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int*, DeviceAttribute, DeviceHandle))        \
  X(device_total_mem, cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, (std::size_t*, DeviceHandle))                          \
  X(primary_retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (ContextHandle*, DeviceHandle))             \
  X(primary_release, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, (DeviceHandle))                      \
  X(ctx_get_current, cuCtxGetCurrent, cuCtxGetCurrent, 4000, (ContextHandle*))                                            \
  X(ctx_get_device, cuCtxGetDevice, cuCtxGetDevice, 2000, (DeviceHandle*))                                                \
  X(ctx_push, cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, (ContextHandle))                                               \
  X(ctx_pop, cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, (ContextHandle*))                                                 \
  X(ctx_reset_persisting_l2, cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 11000, (void))                     \
  X(mem_alloc, cuMemAlloc, cuMemAlloc_v2, 3020, (Address*, std::size_t))                                                  \
  X(mem_free, cuMemFree, cuMemFree_v2, 3020, (Address))                                                                   \
  X(copy_to_device, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, (Address, const void*, std::size_t, StreamHandle))     \
  X(copy_to_host, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, (void*, Address, std::size_t, StreamHandle))             \
  X(copy_on_device, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, (Address, Address, std::size_t, StreamHandle))         \
  X(set_bytes, cuMemsetD8Async, cuMemsetD8Async, 3020, (Address, unsigned char, std::size_t, StreamHandle))               \
  X(set_words, cuMemsetD32Async, cuMemsetD32Async, 3020, (Address, unsigned, std::size_t, StreamHandle))                  \
  X(library_load_data, cuLibraryLoadData, cuLibraryLoadData, 12000,                                                       \
    (LibraryHandle*, const void*, int*, void**, unsigned, int*, void**, unsigned))                                        \
  X(library_unload, cuLibraryUnload, cuLibraryUnload, 12000, (LibraryHandle))                                             \
  X(library_get_kernel, cuLibraryGetKernel, cuLibraryGetKernel, 12000, (KernelHandle*, LibraryHandle, const char*))       \
  X(kernel_get_function, cuKernelGetFunction, cuKernelGetFunction, 12000, (FunctionHandle*, KernelHandle))                \
  X(kernel_get_attribute, cuKernelGetAttribute, cuKernelGetAttribute, 12000,                                              \
    (int*, FunctionAttribute, KernelHandle, DeviceHandle))                                                                \
  X(kernel_set_attribute, cuKernelSetAttribute, cuKernelSetAttribute, 12000,                                              \
    (FunctionAttribute, int, KernelHandle, DeviceHandle))                                                                 \
  X(func_get_attribute, cuFuncGetAttribute, cuFuncGetAttribute, 2020, (int*, FunctionAttribute, FunctionHandle))          \
  X(launch_kernel, cuLaunchKernel, cuLaunchKernel, 4000,                                                                  \
    (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**, void**)) \
  X(launch_kernel_ex, cuLaunchKernelEx, cuLaunchKernelEx, 11060, (const LaunchConfig*, FunctionHandle, void**, void**))   \
  X(max_active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,    \
    (int*, FunctionHandle, int, std::size_t))                                                                             \
  X(max_active_clusters, cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070,                               \
    (int*, FunctionHandle, const LaunchConfig*))                                                                          \
  X(tensor_map_encode_tiled, cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000,                                       \
    (TensorMap*, TensorMapType, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*,   \
     const std::uint32_t*, TensorMapInterleave, TensorMapSwizzle, TensorMapPromotion, TensorMapFill))                     \
  X(stream_create, cuStreamCreate, cuStreamCreate, 2000, (StreamHandle*, unsigned))                                       \
  X(stream_destroy, cuStreamDestroy, cuStreamDestroy_v2, 4000, (StreamHandle))                                            \
  X(stream_synchronize, cuStreamSynchronize, cuStreamSynchronize, 2000, (StreamHandle))                                   \
  X(stream_is_capturing, cuStreamIsCapturing, cuStreamIsCapturing, 10000, (StreamHandle, CaptureStatus*))                 \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, (CaptureMode*))   \
  X(event_create, cuEventCreate, cuEventCreate, 2000, (EventHandle*, unsigned))                                           \
  X(event_destroy, cuEventDestroy, cuEventDestroy_v2, 4000, (EventHandle))                                                \
  X(event_record, cuEventRecord, cuEventRecord, 2000, (EventHandle, StreamHandle))                                        \
  X(event_elapsed_ms, cuEventElapsedTime, cuEventElapsedTime, 2000, (float*, EventHandle, EventHandle))
