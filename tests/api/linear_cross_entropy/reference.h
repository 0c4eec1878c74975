#pragma once
// Inputs for linear + cross-entropy, its reference in float64, and a launch of it with results brought back.

#include <vector>

#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith::test {

/// Host arrays as they are sent.
struct LinearInputs {
  LinearCrossEntropyProblem problem;
  std::vector<std::byte> hidden, weight, targets;
  std::vector<float> class_weight, dloss;
};

/// Every output that the problem has, as float64; empty otherwise.
struct LinearOutputs {
  std::vector<double> loss, lse, z_loss, nll, predicted, dhidden, dweight;
};

/// Deterministic; every fifth target is ignored when there are more than four.
LinearInputs linear_inputs(const LinearCrossEntropyProblem& problem);

/// From the inputs as rounded to their dtypes; everything after that in float64.
LinearOutputs reference(const LinearInputs& inputs);

/// Outputs are poisoned with NaN before. Memory after each array is checked. `workspace` for problems that bring it.
LinearOutputs launch(Engine& engine, const LinearCrossEntropy& prepared, const LinearInputs& inputs);

/// The largest difference, over the largest value of `expected`. NaN where only one of the two is.
double distance(const std::vector<double>& found, const std::vector<double>& expected);

/// Reports every output that is further from the expected one than `allowed` (as distance() says).
void expect_near(const LinearOutputs& found, const LinearOutputs& expected, double allowed);

}  // namespace tunesmith::test
