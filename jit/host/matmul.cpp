#include "jit/host/matmul.h"

#include <vector>

#include "core/half.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Converts the array to contiguous float32, transposed if requested.
std::vector<float> gathered(const void* array, DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                            bool transposed) {
  const auto* const data = static_cast<const std::byte*>(array);
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      values[static_cast<std::size_t>(r * cols + c)] =
          static_cast<float>(read_element(dtype, data, transposed ? c * row_stride + r : r * row_stride + c));
  return values;
}

class HostProduct final : public PreparedMatmul {
 public:
  explicit HostProduct(const MatmulProblem& problem) : problem_(problem) {}

  void enqueue(const MatmulArrays& arrays, Stream) const override {
    const auto& [m, n, k, transpose_a, transpose_b, a_row_stride, b_row_stride, c_row_stride, dtype, out_dtype, bias,
                 a_alignment, b_alignment, c_alignment, bias_alignment] = problem_;
    const std::vector<float> a = gathered(arrays.a, dtype, m, k, a_row_stride, transpose_a);
    const std::vector<float> b = gathered(arrays.b, dtype, k, n, b_row_stride, transpose_b);
    auto* const c = static_cast<std::byte*>(arrays.c);
    std::vector<float> sums(static_cast<std::size_t>(n));
    for (std::int64_t row = 0; row < m; ++row) {
      sums.assign(sums.size(), 0.0f);
      for (std::int64_t depth = 0; depth < k; ++depth) {
        const float factor = a[static_cast<std::size_t>(row * k + depth)];
        const float* const terms = &b[static_cast<std::size_t>(depth * n)];
        for (std::size_t col = 0; col < sums.size(); ++col) sums[col] += factor * terms[col];
      }
      for (std::int64_t col = 0; col < n; ++col) {
        const std::int64_t at = row * c_row_stride + col;
        float value = *arrays.alpha * sums[static_cast<std::size_t>(col)];
        if (*arrays.beta != 0) value += *arrays.beta * static_cast<float>(read_element(out_dtype, c, at));
        if (bias) value += static_cast<float>(read_element(out_dtype, static_cast<const std::byte*>(arrays.bias), col));
        write_element(out_dtype, c, at, value);
      }
    }
  }

 private:
  const MatmulProblem problem_;
};

}  // namespace

std::unique_ptr<PreparedMatmul> HostMatmul::prepare(const MatmulProblem& problem) {
  if (!is_float(problem.dtype) || !is_float(problem.out_dtype))
    throw Error(ErrorCode::invalid_argument, "dtypes of a matrix product are ", name(problem.dtype), " and ",
                name(problem.out_dtype), "; allowed: f32, f16, bf16");
  return std::make_unique<HostProduct>(problem);
}

}  // namespace tunesmith
