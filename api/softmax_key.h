#pragma once
// Everything that decides which plan a one-shot softmax call needs, as five words.

#include <cstdint>

#include "tunesmith/softmax.h"

namespace tunesmith {

/// Bytes that the address is a multiple of: a power of two, at most 16 because no access is wider.
inline std::uint64_t alignment_class(const void* address) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 16U;
  return bits & (~bits + 1);
}

struct SoftmaxKey {
  std::uint64_t rows = 0, cols = 0, x_row_stride = 0, y_row_stride = 0;
  std::uint64_t kind = 0;  ///< dtypes, alignment classes, in place

  SoftmaxKey() = default;
  SoftmaxKey(const void* x, const void* y, const SoftmaxProblem& problem) noexcept
      : rows(static_cast<std::uint64_t>(problem.rows)),
        cols(static_cast<std::uint64_t>(problem.cols)),
        x_row_stride(static_cast<std::uint64_t>(problem.x_row_stride == 0 ? problem.cols : problem.x_row_stride)),
        y_row_stride(static_cast<std::uint64_t>(problem.y_row_stride == 0 ? problem.cols : problem.y_row_stride)),
        kind(static_cast<std::uint64_t>(problem.dtype) | static_cast<std::uint64_t>(problem.out_dtype) << 8 |
             alignment_class(x) << 16 | alignment_class(y) << 24 | static_cast<std::uint64_t>(x == y) << 32) {}

  bool operator==(const SoftmaxKey& other) const noexcept {
    return ((rows ^ other.rows) | (cols ^ other.cols) | (x_row_stride ^ other.x_row_stride) |
            (y_row_stride ^ other.y_row_stride) | (kind ^ other.kind)) == 0;
  }

  /// The multiplications are independent of each other, so that they overlap; the odd constants are digits of the golden
  /// ratio and of square roots. The last product carries every bit into the upper ones.
  std::uint64_t hash() const noexcept {
    const std::uint64_t sum = rows * 0x9e3779b97f4a7c15U + cols * 0xbb67ae8584caa73bU + x_row_stride * 0x3c6ef372fe94f82bU +
                              y_row_stride * 0xa54ff53a5f1d36f1U + kind * 0x510e527fade682d1U;
    return (sum ^ (sum >> 32)) * 0x9e3779b97f4a7c15U;
  }
};

}  // namespace tunesmith
