#pragma once
// Calls of the cross-entropy family through the typed API, with real kernels on the host executor.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/api/engine/host_options.h"
#include "tunesmith/engine.h"

namespace tunesmith::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

template <typename Arrays>
Arrays with_logits(Arrays arrays, const void* logits) {
  arrays.logits = logits;
  return arrays;
}

/// Results computed with the formulas in double.
struct LossReference {
  std::vector<double> loss, lse, z_loss, nll;  // per row, not reduced
  std::vector<double> gradient;                // of each row's loss; for a mean, to be divided by total_weight
  std::vector<std::int64_t> argmax;
  double total_weight = 0, counted = 0;

  // The z term is not weighted, so its mean divides by the number of rows.
  double mean_z_loss() const;
  double mean_loss() const;
};

LossReference reference(const CrossEntropyProblem& problem, const std::vector<float>& logits,
                        const std::vector<std::int64_t>& targets, const std::vector<float>& weights = {});

template <typename Found, typename Expected>
void expect_near(const std::vector<Found>& found, const std::vector<Expected>& expected, double factor, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], factor * expected[i], 4e-6 * (1 + std::fabs(factor * expected[i]))) << what << "[" << i << "]";
}

class CrossEntropyFamily : public testing::Test {
 protected:
  /// Fills logits and targets with ordinary values; one row is ignored.
  void fill(std::size_t rows, std::size_t cols, std::int64_t ignore_index = -100);

  CrossEntropyArrays arrays() {
    CrossEntropyArrays arrays;
    arrays.targets = targets_.data();
    arrays.loss = loss_.data();
    arrays.lse = lse_.data();
    return arrays;
  }

  static CrossEntropyProblem with_everything(std::int64_t rows, std::int64_t cols) {
    CrossEntropyProblem problem = CrossEntropyProblem::contiguous(rows, cols, DType::f32);
    problem.label_smoothing = 0.125;
    problem.z_loss = 0.01;
    problem.scale = 0.5;
    problem.softcap = 3;
    return problem;
  }

  /// Returns the reduced loss of a few rows.
  float loss_of(CrossEntropyProblem problem, std::vector<float> logits, std::vector<std::int64_t> targets,
                const std::vector<float>& weights = {});

  Engine engine_{host_engine_options()};
  std::vector<float> logits_, weights_, loss_, lse_, z_loss_, nll_, dlogits_;
  std::vector<std::int64_t> targets_, argmax_;
};

}  // namespace tunesmith::test
