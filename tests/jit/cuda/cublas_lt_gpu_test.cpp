// cuBLASLt on a GPU: the kinds of products of linear + cross-entropy agree with the host and are bitwise reproducible.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "api/engine/parts.h"
#include "core/half.h"
#include "jit/host/matmul.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

class CublasLtGpu : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options = EngineOptions::from_environment();
    options.device = "cuda";
    options.cache_file.clear();
    try {
      engine_ = std::make_unique<Engine>(options);
      library_ = engine_->parts().matmul();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device && error.code() != ErrorCode::not_found) throw;
      GTEST_SKIP() << error.what();
    }
  }

  static std::vector<std::byte> noise(DType dtype, std::int64_t elements, double seed) {
    std::vector<std::byte> data(static_cast<std::size_t>(elements * size_of(dtype)));
    for (std::int64_t i = 0; i < elements; ++i)
      write_element(dtype, data.data(), i, static_cast<float>(std::sin(seed + 1.7 * static_cast<double>(i))));
    return data;
  }

  void expect_product(bool transpose_a, bool transpose_b, DType dtype, DType out_dtype, float alpha, float beta,
                      bool has_bias, bool host_factors) {
    MatmulProblem problem;
    problem.m = 152;
    problem.n = 200;
    problem.k = 328;
    problem.transpose_a = transpose_a;
    problem.transpose_b = transpose_b;
    problem.dtype = dtype;
    problem.out_dtype = out_dtype;
    problem.a_row_stride = problem.b_row_stride = problem.c_row_stride = 384;
    problem.bias = has_bias;
    problem.workspace_bytes = library_->workspace_bytes();
    if (host_factors) problem.factors = {alpha, beta};
    SCOPED_TRACE(problem.text() + ", beta " + std::to_string(beta));
    const std::vector<std::byte> bias = noise(out_dtype, 200, 0.4);
    const std::vector<std::byte> a = noise(dtype, 328 * 384, 0.1), b = noise(dtype, 328 * 384, 0.2);
    const std::vector<std::byte> before =
        beta == 0 ? std::vector<std::byte>(static_cast<std::size_t>(152 * 384 * size_of(out_dtype)), std::byte{0xFF})
                  : noise(out_dtype, 152 * 384, 0.3);
    std::vector<std::byte> expected = before, first(before.size()), second(before.size());
    HostMatmul().prepare(problem)->enqueue({a.data(), b.data(), expected.data(), &alpha, &beta, nullptr, bias.data()},
                                           nullptr);

    const float scalars[] = {alpha, beta};
    DeviceBuffer on_a(*engine_, a.size()), on_b(*engine_, b.size()), on_c(*engine_, before.size());
    DeviceBuffer on_scalars(*engine_, sizeof scalars), workspace(*engine_, library_->workspace_bytes());
    on_a.copy_from_host(a.data(), a.size());
    on_b.copy_from_host(b.data(), b.size());
    on_scalars.copy_from_host(scalars, sizeof scalars);
    DeviceBuffer on_bias(*engine_, bias.size());
    on_bias.copy_from_host(bias.data(), bias.size());
    const auto* const on_alpha = static_cast<const float*>(on_scalars.data());
    const std::unique_ptr<PreparedMatmul> prepared = library_->prepare(problem);
    for (std::vector<std::byte>* found : {&first, &second}) {
      on_c.copy_from_host(before.data(), before.size());
      prepared->enqueue({on_a.data(), on_b.data(), on_c.data(), on_alpha, on_alpha + 1, workspace.data(), on_bias.data()},
                        nullptr);
      engine_->synchronize();
      on_c.copy_to_host(found->data(), found->size());
    }
    EXPECT_EQ(first, second);
    for (std::int64_t i = 0; i < 152; ++i)
      for (std::int64_t j = 0; j < 384; ++j) {
        const double right = read_element(out_dtype, expected.data(), i * 384 + j);
        const double found = read_element(out_dtype, first.data(), i * 384 + j);
        if (std::isnan(right) && std::isnan(found)) continue;
        // Both sum 328 float32 products, in different orders. cuBLASLt 13.1 rounds bf16 products before it adds them to c.
        const double product = beta == 0 ? 0 : right - beta * read_element(out_dtype, before.data(), i * 384 + j);
        ASSERT_NEAR(found, right, 1e-3 + spacing(out_dtype, right) + spacing(out_dtype, product) / 2) << i << "," << j;
      }
  }

  std::unique_ptr<Engine> engine_;
  std::shared_ptr<MatmulLibrary> library_;
};

TEST_F(CublasLtGpu, AllTranspositionsAndDtypesAgreeWithTheHost) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        for (const DType out_dtype : {dtype, DType::f32})
          for (const float beta : {0.0f, 1.0f})
            for (const bool has_bias : {false, true})
              for (const bool host_factors : {false, true})
                expect_product(transpose_a, transpose_b, dtype, out_dtype, -0.75f, beta, has_bias, host_factors);
}

TEST_F(CublasLtGpu, MultipliesUnalignedRows) {
  MatmulProblem problem;
  problem.m = problem.n = problem.k = 7;
  problem.a_row_stride = problem.b_row_stride = problem.c_row_stride = 7;
  problem.dtype = problem.out_dtype = DType::bf16;
  problem.a_alignment = problem.b_alignment = problem.c_alignment = problem.bias_alignment = 2;
  problem.bias = true;
  EXPECT_NO_THROW(library_->prepare(problem));
}

}  // namespace
}  // namespace tunesmith
