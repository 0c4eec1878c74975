// Matrix products of the host executor compared with float64: transpositions, strides, accumulation, dtypes.

#include "jit/host/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/half.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

struct Matrix {
  Matrix(DType of, std::int64_t rows, std::int64_t stride, double seed)
      : dtype(of), row_stride(stride), data(static_cast<std::size_t>(rows * stride * size_of(of))) {
    for (std::int64_t i = 0; i < rows * stride; ++i)
      write_element(dtype, data.data(), i, static_cast<float>(std::sin(seed + 1.7 * static_cast<double>(i))));
  }
  double at(std::int64_t r, std::int64_t c) const { return read_element(dtype, data.data(), r * row_stride + c); }

  DType dtype;
  std::int64_t row_stride;
  std::vector<std::byte> data;
};

void expect_product(bool transpose_a, bool transpose_b, DType dtype, DType out_dtype, float alpha, float beta,
                    bool has_bias = false) {
  MatmulProblem problem;
  problem.m = 5;
  problem.n = 7;
  problem.k = 9;
  problem.transpose_a = transpose_a;
  problem.transpose_b = transpose_b;
  problem.dtype = dtype;
  problem.out_dtype = out_dtype;
  problem.a_row_stride = 11;
  problem.b_row_stride = 12;
  problem.c_row_stride = 13;
  problem.bias = has_bias;
  SCOPED_TRACE(problem.text());
  const Matrix a(dtype, 9, 11, 0.1), b(dtype, 9, 12, 0.2);
  const Matrix before(out_dtype, 5, 13, 0.3), bias(out_dtype, 1, 7, 0.4);
  Matrix c = before;
  HostMatmul library;
  library.prepare(problem)->enqueue({a.data.data(), b.data.data(), c.data.data(), &alpha, &beta, nullptr, bias.data.data()},
                                    nullptr);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 13; ++j) {
      if (j >= 7) {
        EXPECT_EQ(c.at(i, j), before.at(i, j)) << "between rows";
        continue;
      }
      double sum = 0;
      for (std::int64_t d = 0; d < 9; ++d)
        sum += (transpose_a ? a.at(d, i) : a.at(i, d)) * (transpose_b ? b.at(j, d) : b.at(d, j));
      const double expected = alpha * sum + (beta != 0 ? beta * before.at(i, j) : 0.0) + (has_bias ? bias.at(0, j) : 0.0);
      EXPECT_NEAR(c.at(i, j), expected, 4e-6 + 0.51 * spacing(out_dtype, expected)) << i << "," << j;
    }
}

TEST(HostMatmul, AllTranspositionsAndDtypes) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        for (const DType out_dtype : {dtype, DType::f32}) {
          expect_product(transpose_a, transpose_b, dtype, out_dtype, 1, 0);
          expect_product(transpose_a, transpose_b, dtype, out_dtype, -0.75f, 1);
          expect_product(transpose_a, transpose_b, dtype, out_dtype, 2, 0, true);
        }
}

TEST(HostMatmul, DoesNotReadTheResultIfBetaIsZero) {
  const float one = 1, zero = 0, a = 3, b = 2;
  float c = std::nanf("");
  HostMatmul library;
  library.prepare({})->enqueue({&a, &b, &c, &one, &zero, nullptr}, nullptr);
  EXPECT_EQ(c, 6);
}

TEST(HostMatmul, RejectsIntegers) {
  MatmulProblem problem;
  problem.dtype = DType::i32;
  EXPECT_THROW(HostMatmul().prepare(problem), Error);
}

}  // namespace
}  // namespace tunesmith
