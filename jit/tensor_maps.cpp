#include "jit/tensor_maps.h"

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::int64_t chunk_bytes = 16;
constexpr std::int64_t max_size = std::int64_t{1} << 32;
constexpr std::int64_t max_stride_bytes = std::int64_t{1} << 40;
constexpr std::int64_t max_box = 256;

// Checks one map; errors name its array.
class Check {
 public:
  Check(const LaunchPlan& plan, const LaunchPlan::TensorMap& map) : plan_(plan), map_(map) {}

  void run() {
    place();
    require(map_.dtype == DType::bf16 || map_.dtype == DType::f16 || map_.dtype == DType::f32, "has elements of ",
            name(map_.dtype), "; allowed: bf16, f16 and f32");
    require(map_.rank >= 1 && map_.rank <= LaunchPlan::TensorMap::max_rank, "has ", map_.rank, " dimensions; allowed: 1 to ",
            LaunchPlan::TensorMap::max_rank);
    for (std::size_t i = 0; i < static_cast<std::size_t>(map_.rank); ++i) dimension(i);
    row();
    extent();
  }

 private:
  template <typename... Parts>
  void fail(ErrorCode code, const Parts&... parts) const {
    const auto array = static_cast<std::size_t>(map_.array);
    const bool is_known = map_.array >= 0 && array < plan_.pointers.size();
    throw Error(code, "the tensor map of array '", is_known ? plan_.pointers[array].array : std::to_string(map_.array), "' ",
                parts...);
  }
  template <typename... Parts>
  void require(bool holds, const Parts&... parts) const {
    if (!holds) fail(ErrorCode::unsupported, parts...);
  }

  void place() const {
    constexpr std::uint32_t bytes = LaunchPlan::TensorMap::bytes, alignment = LaunchPlan::TensorMap::alignment;
    if (map_.array < 0 || static_cast<std::size_t>(map_.array) >= plan_.pointers.size())
      fail(ErrorCode::invalid_argument, "belongs to no array; the plan has ", plan_.pointers.size());
    if (map_.offset % alignment != 0 || std::size_t{map_.offset} + bytes > plan_.params.size())
      fail(ErrorCode::invalid_argument, "is at byte ", map_.offset, " of a parameter block of ", plan_.params.size(),
           " bytes; it takes ", bytes, " bytes at a multiple of ", alignment);
    const std::uint32_t promised = plan_.pointers[static_cast<std::size_t>(map_.array)].alignment;
    require(promised % chunk_bytes == 0, "needs addresses that are a multiple of 16 bytes; this plan promises ", promised);
  }

  void dimension(std::size_t i) const {
    require(map_.sizes[i] >= 1 && map_.sizes[i] <= max_size, "has size ", map_.sizes[i], " in dimension ", i,
            "; allowed: 1 to 2^32");
    require(map_.box[i] >= 1 && map_.box[i] <= max_box, "has a box of ", map_.box[i], " elements in dimension ", i,
            "; allowed: 1 to 256");
    if (i == 0) return;
    const std::int64_t stride = map_.strides_bytes[i - 1];
    require(stride >= 0 && stride % chunk_bytes == 0 && stride < max_stride_bytes, "has a stride of ", stride,
            " bytes in dimension ", i, "; allowed: multiples of 16 below 2^40");
  }

  void row() const {
    const std::int64_t bytes = map_.box[0] * size_of(map_.dtype);
    require(bytes % chunk_bytes == 0, "has a box with rows of ", bytes, " bytes; allowed: multiples of 16");
    const int swizzle = map_.swizzle_bytes, promotion = map_.promotion_bytes;
    require(swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128, "has a swizzle of ", swizzle,
            " bytes; allowed: 0, 32, 64 and 128");
    require(swizzle == 0 || bytes <= swizzle, "has a box with rows of ", bytes, " bytes; allowed with a swizzle of ",
            swizzle, ": at most ", swizzle);
    require(promotion == 0 || promotion == 64 || promotion == 128 || promotion == 256, "has a promotion of ", promotion,
            " bytes; allowed: 0, 64, 128 and 256");
  }

  // TMA accesses everything within the sizes, whether the array has it or not.
  void extent() const {
    const LaunchPlan::Pointer& pointer = plan_.pointers[static_cast<std::size_t>(map_.array)];
    std::int64_t bytes = map_.sizes[0] * size_of(map_.dtype);
    for (std::size_t i = 1; i < static_cast<std::size_t>(map_.rank); ++i) {
      std::int64_t reach = 0;
      if (__builtin_mul_overflow(map_.sizes[i] - 1, map_.strides_bytes[i - 1], &reach) ||
          __builtin_add_overflow(bytes, reach, &bytes))
        fail(ErrorCode::invalid_argument, "spans more than 2^63 bytes");
    }
    bytes -= map_.before_bytes;
    if (bytes > pointer.extent_bytes)
      fail(ErrorCode::invalid_argument, "spans ", bytes, " bytes; the array has ", pointer.extent_bytes);
  }

  const LaunchPlan& plan_;
  const LaunchPlan::TensorMap& map_;
};

}  // namespace

TensorMaps::TensorMaps(Device& device, const LaunchPlan& plan) {
  maps_.reserve(plan.tensor_maps.size());
  for (const LaunchPlan::TensorMap& map : plan.tensor_maps) {
    Check(plan, map).run();
    const auto array = static_cast<std::size_t>(map.array);
    maps_.push_back({array, map.offset, map.before_bytes, device.prepare_tensor_map(map, plan.pointers[array].array)});
  }
}

void TensorMaps::encode(std::span<void* const> arrays, std::byte* params) const {
  for (const Placed& placed : maps_) {
    if (arrays[placed.array] == nullptr) continue;
    // Not a pointer into the array, so integers do the arithmetic.
    const auto address =
        reinterpret_cast<std::uintptr_t>(arrays[placed.array]) - static_cast<std::uintptr_t>(placed.before_bytes);
    placed.map->encode(params + placed.offset, reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
  }
}

}  // namespace tunesmith
