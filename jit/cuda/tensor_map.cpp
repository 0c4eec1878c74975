#include "jit/cuda/tensor_map.h"

#include <bit>

#include "jit/cuda/context_scope.h"

namespace tunesmith {
namespace {

static_assert(sizeof(cuda::TensorMap) == LaunchPlan::TensorMap::bytes);
static_assert(alignof(cuda::TensorMap) == LaunchPlan::TensorMap::alignment);

cuda::TensorMapType type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return cuda::TensorMapType::f16;
    case DType::bf16: return cuda::TensorMapType::bf16;
    default: return cuda::TensorMapType::f32;
  }
}

// Converts bytes to the driver's enumerator: 0 -> 0, `first` -> 1, 2 * first -> 2, ...
int number_of(int bytes, int first) {
  return bytes == 0 ? 0
                    : 1 + std::countr_zero(static_cast<unsigned>(bytes)) - std::countr_zero(static_cast<unsigned>(first));
}

}  // namespace

std::unique_ptr<PreparedTensorMap> CudaDevice::prepare_tensor_map(const LaunchPlan::TensorMap& map,
                                                                  const std::string& array) {
  if (info_.arch.major < 9) return Device::prepare_tensor_map(map, array);
  const ContextScope scope(*this);
  return std::make_unique<CudaTensorMap>(*this, map, array, scope.context());
}

CudaTensorMap::CudaTensorMap(const CudaDevice& device, const LaunchPlan::TensorMap& map, const std::string& array,
                             cuda::ContextHandle context)
    : device_(device),
      driver_(device.driver()),
      array_(array),
      context_(context),
      type_(type_of(map.dtype)),
      rank_(static_cast<std::uint32_t>(map.rank)),
      swizzle_(static_cast<cuda::TensorMapSwizzle>(number_of(map.swizzle_bytes, 32))),
      promotion_(static_cast<cuda::TensorMapPromotion>(number_of(map.promotion_bytes, 64))) {
  for (std::size_t i = 0; i < rank_; ++i) {
    sizes_[i] = static_cast<std::uint64_t>(map.sizes[i]);
    box_[i] = static_cast<std::uint32_t>(map.box[i]);
    if (i > 0) strides_bytes_[i - 1] = static_cast<std::uint64_t>(map.strides_bytes[i - 1]);
  }
}

void CudaTensorMap::encode(void* map, void* array) const {
  // As for a launch: make sure that the current context does not belong to another GPU.
  cuda::ContextHandle current = nullptr;
  cuda::Result result = cuda::success;
  if (driver_->ctx_get_current(&current) == cuda::success && current == context_) {
    result = encode_here(map, array);
  } else {
    const ContextScope scope(device_);
    result = encode_here(map, array);
  }
  if (result != cuda::success) [[unlikely]]
    driver_.fail(result, "cuTensorMapEncodeTiled", describe());
}

cuda::Result CudaTensorMap::encode_here(void* map, void* array) const noexcept {
  static constexpr std::array<std::uint32_t, max_rank> every_element{1, 1, 1, 1, 1};
  return driver_->tensor_map_encode_tiled(static_cast<cuda::TensorMap*>(map), type_, rank_, array, sizes_.data(),
                                          strides_bytes_.data(), box_.data(), every_element.data(),
                                          cuda::TensorMapInterleave::none, swizzle_, promotion_, cuda::TensorMapFill::zero);
}

std::string CudaTensorMap::describe() const {
  std::string text = "encoding the tensor map of array '" + array_ + "' with sizes";
  for (std::size_t i = 0; i < rank_; ++i) text += (i == 0 ? " " : "x") + std::to_string(sizes_[i]);
  text += ", strides of";
  for (std::size_t i = 1; i < rank_; ++i) text += " " + std::to_string(strides_bytes_[i - 1]);
  text += " bytes, boxes of";
  for (std::size_t i = 0; i < rank_; ++i) text += (i == 0 ? " " : "x") + std::to_string(box_[i]);
  return text;
}

}  // namespace tunesmith
