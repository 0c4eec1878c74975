#pragma once
// Problems and configurations of the softmax family that the kernel tests go through, seeded.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/op.h"

namespace tunesmith::test {

inline constexpr std::array<std::string_view, 4> softmax_ops{"softmax", "log_softmax", "softmax_backward",
                                                             "log_softmax_backward"};

struct Case {
  Problem problem;  ///< normalized
  Config config;    ///< complete

  const Op& op() const { return find_op(problem.op); }
  std::string text() const { return problem.text() + " | " + config.text(); }
};

/// "rows=17,cols=64" as a normalized problem of `op`.
Problem normalized(std::string_view op, const std::string& fields);
/// A case from texts; the configuration may be partial. Throws what Op::complete_config throws.
Case case_of(std::string_view op, const std::string& fields, const DeviceInfo& device, const std::string& config);

/// Shapes that touch every edge: one column, below and above vectors, lanes, warps and blocks, padded and odd strides,
/// addresses aligned to one element only, in place, all pairs of dtypes. The four operations take turns.
std::vector<Problem> edge_problems(std::int64_t rows);

/// Every option of every operation alone, and all together, on shapes that take turns: square ones, aligned and shifted
/// rows, mixed dtypes, in place, rows that are long enough to be shared by blocks.
std::vector<Problem> option_problems(std::int64_t rows);

/// `count` configurations drawn from the full search space; every variant that is valid is among them.
std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed);

}  // namespace tunesmith::test
