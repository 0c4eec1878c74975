#pragma once
// score_mod and its derivative as a device evaluates them alone, and the checks of tanh that hold on the host executor and
// on a GPU.

#include <memory>
#include <vector>

#include "jit/device.h"
#include "templates/op.h"

namespace tunesmith::test {

struct ScoreModValues {
  std::vector<float> values, derivatives;
};

/// Evaluates score_mod and its derivative by the score. `scores`: equally many for each head, one head after another.
ScoreModValues score_mod_values(const Problem& problem, Device& device, const std::shared_ptr<Module>& module,
                                const std::vector<float>& scores);

/// Returns a problem whose score_mod is fast_tanhf in head 0 and __tanhf in head 1.
Problem tanh_problem();

/// Checks both functions and their derivatives: NaN, infinities, zeros, denormals, small and large scores. `relative`:
/// allowed error of __tanhf.
void check_tanh(const Problem& problem, Device& device, const std::shared_ptr<Module>& module, double relative);

}  // namespace tunesmith::test
