#include "jit/host/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "jit/host/device.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace host {

TensorMap TensorMap::of(const LaunchPlan::TensorMap& map, void* array) {
  TensorMap made{};
  made.mark = valid;
  made.dtype = map.dtype;
  made.rank = static_cast<std::uint8_t>(map.rank);
  made.element_bytes = static_cast<std::uint8_t>(size_of(map.dtype));
  made.swizzle_bytes = static_cast<std::uint8_t>(map.swizzle_bytes);
  made.begins_before = map.before_bytes > 0;
  made.array = static_cast<std::byte*>(array);
  for (std::size_t i = 0; i < static_cast<std::size_t>(map.rank); ++i) {
    made.box[i] = static_cast<std::uint16_t>(map.box[i]);
    made.sizes[i] = map.sizes[i];
    made.strides_bytes[i] = i == 0 ? made.element_bytes : map.strides_bytes[i - 1];
  }
  return made;
}

std::size_t TensorMap::rows() const noexcept {
  std::size_t count = 1;
  for (int i = 1; i < rank; ++i) count *= box[i];
  return count;
}

TensorMap::Row TensorMap::row(std::size_t number, const int* at) const noexcept {
  std::int64_t offset = 0;
  bool exists = true;
  for (int i = 1; i < rank; ++i) {
    const std::int64_t index = at[i] + static_cast<std::int64_t>(number % box[i]);
    number /= box[i];
    exists = exists && index >= 0 && index < sizes[i];
    offset += index * strides_bytes[i];
  }
  const std::int64_t first = std::clamp<std::int64_t>(-std::int64_t{at[0]}, 0, box[0]);
  const std::int64_t end = std::clamp<std::int64_t>(sizes[0] - at[0], first, box[0]);
  if (!exists || end == first) return {nullptr, 0, 0};
  return {array + offset + (at[0] + first) * element_bytes, first, end - first};
}

}  // namespace host

namespace {

class HostTensorMap final : public PreparedTensorMap {
 public:
  explicit HostTensorMap(const LaunchPlan::TensorMap& map) : map_(map) {}
  void encode(void* map, void* array) const override {
    const host::TensorMap made = host::TensorMap::of(map_, array);
    std::memcpy(map, &made, sizeof made);
  }

 private:
  const LaunchPlan::TensorMap map_;
};

}  // namespace

std::unique_ptr<PreparedTensorMap> HostDevice::prepare_tensor_map(const LaunchPlan::TensorMap& map,
                                                                  const std::string& array) {
  if (const std::int64_t row = map.box[0] * static_cast<std::int64_t>(size_of(map.dtype));
      map.swizzle_bytes != 0 && row != map.swizzle_bytes)
    throw Error(ErrorCode::unsupported, "array '", array, "' has a tensor map with a box of ", row,
                " bytes in dimension 0 and a swizzle over ", map.swizzle_bytes, "; the host executor needs them equal");
  return std::make_unique<HostTensorMap>(map);
}

}  // namespace tunesmith
