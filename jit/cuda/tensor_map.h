#pragma once
// A tensor map with its driver arguments converted once; each launch encodes it with the array's address.

#include <array>
#include <string>

#include "jit/cuda/device.h"

namespace tunesmith {

class CudaTensorMap final : public PreparedTensorMap {
 public:
  /// Requires a current context on the device.
  CudaTensorMap(const CudaDevice& device, const LaunchPlan::TensorMap& map, const std::string& array,
                cuda::ContextHandle context);
  void encode(void* map, void* array) const override;

 private:
  static constexpr std::size_t max_rank = LaunchPlan::TensorMap::max_rank;

  cuda::Result encode_here(void* map, void* array) const noexcept;
  std::string describe() const;

  const CudaDevice& device_;
  const Driver& driver_;
  const std::string array_;
  const cuda::ContextHandle context_;
  cuda::TensorMapType type_;
  std::uint32_t rank_;
  std::array<std::uint64_t, max_rank> sizes_{};
  std::array<std::uint64_t, max_rank - 1> strides_bytes_{};
  std::array<std::uint32_t, max_rank> box_{};
  cuda::TensorMapSwizzle swizzle_;
  cuda::TensorMapPromotion promotion_;
};

}  // namespace tunesmith
