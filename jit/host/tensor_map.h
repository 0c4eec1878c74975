// Tensor maps of the host executor, for TMA copies between an array and boxes in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/launch.h"

namespace tunesmith::host {

/// The contents that HostDevice writes to the 128 bytes of a kernel's TensorMap.
struct TensorMap {
  static constexpr std::uint32_t valid = 0x544d4150;  ///< `mark` of an encoded map; a null array leaves zeros
  static constexpr int max_rank = LaunchPlan::TensorMap::max_rank;

  std::uint32_t mark;
  DType dtype;
  std::uint8_t rank, element_bytes, swizzle_bytes;
  /// The map begins before its array (LaunchPlan::TensorMap::before_bytes). No box may then be loaded that is wholly out of
  /// bounds: with packed sequences of 1000 and more positions, an H200 ended such kernels with an illegal address.
  bool begins_before;
  std::uint16_t box[max_rank];
  std::byte* array;
  std::int64_t sizes[max_rank];
  std::int64_t strides_bytes[max_rank];  ///< of dimension 0, too

  static TensorMap of(const LaunchPlan::TensorMap& map, void* array);

  std::size_t row_bytes() const noexcept { return std::size_t{box[0]} * element_bytes; }
  std::size_t rows() const noexcept;
  std::size_t box_bytes() const noexcept { return rows() * row_bytes(); }

  /// A row of a box, the elements along dimension 0. Elements [0, inside) after `first` are in the array.
  struct Row {
    std::byte* elements;  ///< where element `first` of the row is
    std::int64_t first, inside;
  };
  Row row(std::size_t number, const int* at) const noexcept;
};
static_assert(sizeof(TensorMap) <= LaunchPlan::TensorMap::bytes);

/// Returns where TMA, and the tensor cores with the same swizzle, put the 16 bytes at `address` of shared memory.
constexpr std::uint32_t swizzled(std::uint32_t address, int swizzle_bytes) noexcept {
  const std::uint32_t chunks = swizzle_bytes < 32 ? 0 : static_cast<std::uint32_t>(swizzle_bytes) / 16 - 1;
  return address ^ (address >> 7 & chunks) << 4;
}

}  // namespace tunesmith::host
