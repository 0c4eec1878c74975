#pragma once
// Everything that decides which plan a one-shot call of the softmax family needs, as a few words. Plain calls have short
// keys, one cache line with the value; calls with options have a longer one. What the addresses tell (alignment, in place)
// and what the call's name tells (logarithm) is taken from there, not from the problem.

#include <bit>
#include <cstdint>

#include "api/dispatch/key.h"
#include "tunesmith/softmax.h"

namespace tunesmith {

namespace softmax_key {

constexpr std::uint64_t word(std::int64_t value) noexcept { return static_cast<std::uint64_t>(value); }

inline std::uint64_t row_stride(const std::optional<std::int64_t>& given, std::int64_t cols) noexcept {
  return word(given.value_or(cols));
}

/// Everything small as one word: element types, alignment classes (at most 16), and flags from bit 52 on.
inline std::uint64_t kind(DType dtype, DType out_dtype, std::uint64_t alignments, bool in_place, bool logarithm) noexcept {
  return static_cast<std::uint64_t>(dtype) | static_cast<std::uint64_t>(out_dtype) << 8 | alignments |
         static_cast<std::uint64_t>(in_place) << 52 | static_cast<std::uint64_t>(logarithm) << 53;
}
inline std::uint64_t kind(const void* x, const void* y, const SoftmaxProblem& problem, bool logarithm) noexcept {
  return kind(problem.dtype, problem.output(), alignment_class(x) << 32 | alignment_class(y) << 37, x == y, logarithm);
}
inline std::uint64_t kind(const void* dy, const void* y, const void* dx, const SoftmaxBackwardProblem& problem,
                          bool logarithm) noexcept {
  return kind(problem.dtype, problem.output(),
              alignment_class(dy) << 32 | alignment_class(y) << 37 | alignment_class(dx) << 42, dx == dy, logarithm) |
         std::uint64_t{1} << 54;
}
inline std::uint64_t kind(const SoftmaxOptions& options, DType dtype, const SoftmaxArrays& arrays) noexcept {
  std::uint64_t bits = static_cast<std::uint64_t>(options.causal) << 55 |
                       static_cast<std::uint64_t>(options.valid_cols) << 56 | static_cast<std::uint64_t>(options.safe) << 57;
  if (options.mask.kind == SoftmaxMask::Kind::none) return bits;
  bits |= static_cast<std::uint64_t>(options.mask.kind) << 16 | alignment_class(arrays.mask) << 47;
  if (options.mask.kind == SoftmaxMask::Kind::add)
    bits |= static_cast<std::uint64_t>(options.mask.dtype.value_or(dtype)) << 24;
  return bits;
}

}  // namespace softmax_key

/// softmax and log_softmax without options.
struct SoftmaxKey : DispatchKey<5> {
  SoftmaxKey() = default;
  SoftmaxKey(const void* x, const void* y, const SoftmaxProblem& problem, bool logarithm) noexcept
      : DispatchKey{{softmax_key::word(problem.rows), softmax_key::word(problem.cols),
                     softmax_key::row_stride(problem.x_row_stride, problem.cols),
                     softmax_key::row_stride(problem.y_row_stride, problem.cols),
                     softmax_key::kind(x, y, problem, logarithm)}} {}
};

/// Their gradients without options.
struct SoftmaxBackwardKey : DispatchKey<6> {
  SoftmaxBackwardKey() = default;
  SoftmaxBackwardKey(const void* dy, const void* y, const void* dx, const SoftmaxBackwardProblem& problem,
                     bool logarithm) noexcept
      : DispatchKey{{softmax_key::word(problem.rows), softmax_key::word(problem.cols),
                     softmax_key::row_stride(problem.dy_row_stride, problem.cols),
                     softmax_key::row_stride(problem.y_row_stride, problem.cols),
                     softmax_key::row_stride(problem.dx_row_stride, problem.cols),
                     softmax_key::kind(dy, y, dx, problem, logarithm)}} {}
};

/// All four with options. Fields of an option that is off make no difference.
struct SoftmaxOptionsKey : DispatchKey<13> {
  SoftmaxOptionsKey() = default;
  SoftmaxOptionsKey(const void* x, const void* y, const SoftmaxProblem& problem, bool logarithm,
                    const SoftmaxArrays& arrays) noexcept {
    words[2] = softmax_key::row_stride(problem.x_row_stride, problem.cols);
    words[3] = softmax_key::row_stride(problem.y_row_stride, problem.cols);
    set_rest(softmax_key::kind(x, y, problem, logarithm), problem.rows, problem.cols, problem.dtype, problem.options,
             arrays);
  }
  SoftmaxOptionsKey(const void* dy, const void* y, const void* dx, const SoftmaxBackwardProblem& problem, bool logarithm,
                    const SoftmaxArrays& arrays) noexcept {
    words[2] = softmax_key::row_stride(problem.dy_row_stride, problem.cols);
    words[3] = softmax_key::row_stride(problem.y_row_stride, problem.cols);
    words[4] = softmax_key::row_stride(problem.dx_row_stride, problem.cols);
    set_rest(softmax_key::kind(dy, y, dx, problem, logarithm), problem.rows, problem.cols, problem.dtype, problem.options,
             arrays);
  }

 private:
  void set_rest(std::uint64_t kind, std::int64_t rows, std::int64_t cols, DType dtype, const SoftmaxOptions& options,
                const SoftmaxArrays& arrays) noexcept {
    words[0] = softmax_key::word(rows);
    words[1] = softmax_key::word(cols);
    words[5] = kind | softmax_key::kind(options, dtype, arrays);
    words[6] = std::bit_cast<std::uint64_t>(options.scale);
    if (options.valid_cols) words[7] = softmax_key::word(options.valid_cols_group);
    const SoftmaxMask& mask = options.mask;
    if (mask.kind == SoftmaxMask::Kind::none) return;
    words[8] = softmax_key::word(mask.inner.value_or(rows));
    words[9] = softmax_key::word(mask.middle);
    words[10] = softmax_key::word(mask.row_stride.value_or(cols));
    words[11] = softmax_key::word(mask.middle_stride);
    words[12] = softmax_key::word(mask.outer_stride);
  }
};

}  // namespace tunesmith
