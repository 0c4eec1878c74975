// Compares Tunesmith's declarations of the CUDA interfaces with the toolkit's headers. If they are installed, the build
// includes them before this file.

#include <gtest/gtest.h>

#include <cstddef>

#include "jit/cuda/driver.h"
#include "jit/cuda/nvrtc_api.h"

#ifdef CUDA_VERSION

namespace tunesmith {
namespace {

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SAME(cuda::success, CUDA_SUCCESS);
SAME(cuda::error_invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(cuda::error_out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(cuda::error_stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME(cuda::error_device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(cuda::error_no_device, CUDA_ERROR_NO_DEVICE);
SAME(cuda::error_invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(cuda::error_no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(cuda::error_launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(cuda::error_not_found, CUDA_ERROR_NOT_FOUND);
SAME(cuda::error_illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(cuda::error_launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(cuda::error_assert, CUDA_ERROR_ASSERT);
SAME(cuda::error_hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(cuda::error_illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(cuda::error_misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(cuda::error_invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(cuda::error_invalid_pc, CUDA_ERROR_INVALID_PC);
SAME(cuda::error_launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME(cuda::error_system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(cuda::error_compat_not_supported_on_device, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(cuda::error_stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(cuda::error_stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(cuda::error_stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(cuda::error_invalid_cluster_size, CUDA_ERROR_INVALID_CLUSTER_SIZE);

SAME(cuda::DeviceAttribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(cuda::DeviceAttribute::max_shared_memory_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(cuda::DeviceAttribute::clock_rate_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(cuda::DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(cuda::DeviceAttribute::memory_clock_rate_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(cuda::DeviceAttribute::memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(cuda::DeviceAttribute::l2_cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(cuda::DeviceAttribute::max_threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(cuda::DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(cuda::DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(cuda::DeviceAttribute::max_shared_memory_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME(cuda::DeviceAttribute::max_registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME(cuda::DeviceAttribute::cooperative_launch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME(cuda::DeviceAttribute::max_shared_memory_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(cuda::DeviceAttribute::cluster_launch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);

SAME(cuda::FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(cuda::FunctionAttribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(cuda::FunctionAttribute::num_regs, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(cuda::FunctionAttribute::max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(cuda::FunctionAttribute::non_portable_cluster_size_allowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

SAME(cuda::CaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(cuda::CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(cuda::CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(cuda::CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(cuda::CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(cuda::stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(cuda::event_default, CU_EVENT_DEFAULT);
SAME(cuda::proc_address_legacy_stream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(cuda::LaunchAttributeId::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(cuda::LaunchAttributeId::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(cuda::LaunchAttributeId::programmatic_stream_serialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

SAME(cuda::TensorMapType::f16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(cuda::TensorMapType::f32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(cuda::TensorMapType::bf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(cuda::TensorMapInterleave::none, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(cuda::TensorMapSwizzle::none, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(cuda::TensorMapSwizzle::bytes_32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(cuda::TensorMapSwizzle::bytes_64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(cuda::TensorMapSwizzle::bytes_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(cuda::TensorMapPromotion::none, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME(cuda::TensorMapPromotion::bytes_64, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
SAME(cuda::TensorMapPromotion::bytes_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(cuda::TensorMapPromotion::bytes_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(cuda::TensorMapFill::zero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

SAME(sizeof(cuda::TensorMap), sizeof(CUtensorMap));
SAME(sizeof(cuda::Address), sizeof(CUdeviceptr));
SAME(sizeof(cuda::Result), sizeof(CUresult));
SAME(sizeof(cuda::DeviceHandle), sizeof(CUdevice));
SAME(sizeof(cuda::Uuid), sizeof(CUuuid));
SAME(sizeof(cuda::CaptureMode), sizeof(CUstreamCaptureMode));
SAME(sizeof(cuda::LaunchAttribute), sizeof(CUlaunchAttribute));
SAME(alignof(cuda::LaunchAttribute), alignof(CUlaunchAttribute));
SAME(offsetof(cuda::LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
SAME(sizeof(cuda::LaunchConfig), sizeof(CUlaunchConfig));
SAME(offsetof(cuda::LaunchConfig, grid_x), offsetof(CUlaunchConfig, gridDimX));
SAME(offsetof(cuda::LaunchConfig, block_x), offsetof(CUlaunchConfig, blockDimX));
SAME(offsetof(cuda::LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(cuda::LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(cuda::LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(cuda::LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));

SAME(nvrtc::success, NVRTC_SUCCESS);
SAME(nvrtc::out_of_memory, NVRTC_ERROR_OUT_OF_MEMORY);
SAME(nvrtc::builtin_operation_failure, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);
SAME(sizeof(nvrtc::Result), sizeof(nvrtcResult));
SAME(sizeof(nvrtc::Program), sizeof(nvrtcProgram));

#undef SAME

// Checks that a function takes the same number of arguments as the toolkit's, with the same sizes.
template <typename... Ours, typename... Theirs>
constexpr bool agree(int (*)(Ours...), CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return ((sizeof(Ours) == sizeof(Theirs)) && ...);
  return false;
}

#define AGREES(member, name, symbol, version, signature) \
  static_assert(agree(decltype(Driver::Functions::member){}, static_cast<decltype(&::symbol)>(nullptr)));
TUNESMITH_CUDA_FUNCTIONS(AGREES)
#undef AGREES

TEST(CudaInterface, MatchesTheToolkitsHeaders) { SUCCEED() << "checked when this file was compiled"; }

}  // namespace
}  // namespace tunesmith

#else

TEST(CudaInterface, MatchesTheToolkitsHeaders) { GTEST_SKIP() << "no CUDA headers were installed when this was built"; }

#endif
