#pragma once
// Softmax problems and configurations that the kernel tests go through, seeded.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/op.h"
#include "tunesmith/softmax.h"

namespace tunesmith::test {

struct Case {
  Problem problem;  ///< normalized
  Config config;

  std::string text() const { return problem.text() + " | " + config.text(); }
};

/// Shapes that touch every edge: one column, below and above vectors, lanes, warps and blocks, padded and odd strides,
/// addresses aligned to one element only, in place, all pairs of dtypes.
std::vector<Problem> edge_problems(std::int64_t rows);

/// `count` configurations drawn from the full search space; every variant that is valid is among them.
std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed);

}  // namespace tunesmith::test
