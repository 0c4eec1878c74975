// matmul and linear_loss on a GPU, in every kind of configuration that it can run.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/matmul/cases.h"

namespace tunesmith {
namespace {

using test::Case;

class ProductGpu : public test::GpuKernels {
 protected:
  void verify_drawn(const char* op, const std::vector<test::ProductCase>& drawn) {
    std::vector<Case> cases;
    for (const auto& [fields, config] : drawn) {
      for (const std::string& one : {config, std::string()})
        for (Case& valid : case_if_valid(op, fields, one)) cases.push_back(std::move(valid));
    }
    verify_all(cases);
  }
};

TEST_F(ProductGpu, MatmulAgreesWithFloat64) { verify_drawn("matmul", test::matmul_cases(5, 56, 1500)); }
TEST_F(ProductGpu, LinearLossAgreesWithFloat64) {
  verify_drawn("linear_loss", test::linear_loss_cases(6, 42, 700, 600, 5000));
}
TEST_F(ProductGpu, LinearLossBackwardAgreesWithFloat64) {
  verify_drawn("linear_loss_backward", test::linear_loss_backward_cases(7, 30, 700, 600, 5000));
}

}  // namespace
}  // namespace tunesmith
