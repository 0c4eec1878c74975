#pragma once
// Inputs of linear cross-entropy, its float64 reference, and a launch that copies the results back.

#include <vector>

#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith::test {

/// Inputs in host memory.
struct LinearInputs {
  LinearCrossEntropyProblem problem;
  std::vector<std::byte> hidden, weight, bias, targets;
  std::vector<float> class_weight, dloss, dlse;
};

/// The outputs of a problem as float64; empty if the problem does not have them.
struct LinearOutputs {
  std::vector<double> loss, lse, z_loss, nll, argmax, dhidden, dweight, dbias;
};

/// Makes deterministic inputs. With more than four tokens, every fifth target is ignored.
LinearInputs linear_inputs(const LinearCrossEntropyProblem& problem);

/// Computes the outputs in float64 from inputs rounded to their dtypes.
LinearOutputs reference(const LinearInputs& inputs);

/// Launches with outputs filled with NaN, and checks that memory before and after each array does not change. Matrices are
/// aligned just as the problem promises. Allocates the workspace if the problem has caller_workspace.
LinearOutputs launch(Engine& engine, const LinearCrossEntropy& prepared, const LinearInputs& inputs);

/// Returns the largest difference divided by the largest value of `expected`. NaN if an element is NaN in only one of them.
double distance(const std::vector<double>& found, const std::vector<double>& expected);

/// Reports every output whose distance() from the expected one exceeds `allowed`.
void expect_near(const LinearOutputs& found, const LinearOutputs& expected, double allowed);

}  // namespace tunesmith::test
