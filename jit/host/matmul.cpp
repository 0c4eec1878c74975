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
    const MatmulProblem& p = problem_;
    const std::int64_t m = p.m, n = p.n, k = p.k;
    const auto [alpha, beta] = p.factors ? *p.factors : MatmulFactors{*arrays.alpha, *arrays.beta};
    const std::vector<float> a = gathered(arrays.a, p.dtype, m, k, p.a_row_stride, p.transpose_a);
    const std::vector<float> b = gathered(arrays.b, p.dtype, k, n, p.b_row_stride, p.transpose_b);
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
        const std::int64_t at = row * p.c_row_stride + col;
        float value = alpha * sums[static_cast<std::size_t>(col)];
        if (beta != 0) value += beta * static_cast<float>(read_element(p.out_dtype, c, at));
        if (p.bias) value += static_cast<float>(read_element(p.out_dtype, static_cast<const std::byte*>(arrays.bias), col));
        write_element(p.out_dtype, c, at, value);
      }
    }
  }

 private:
  const MatmulProblem problem_;
};

}  // namespace

std::vector<std::unique_ptr<PreparedMatmul>> HostMatmul::prepare(const MatmulProblem& problem, int) {
  if (!is_float(problem.dtype) || !is_float(problem.out_dtype))
    throw Error(ErrorCode::invalid_argument, "dtypes of a matrix product are ", name(problem.dtype), " and ",
                name(problem.out_dtype), "; allowed: f32, f16, bf16");
  std::vector<std::unique_ptr<PreparedMatmul>> products;
  products.push_back(std::make_unique<HostProduct>(problem));
  return products;
}

}  // namespace tunesmith
