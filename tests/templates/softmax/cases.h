#pragma once
// Seeded problems and configurations of the softmax family for the kernel tests.

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

/// Parses "rows=17,cols=64" as a normalized problem of `op`.
Problem normalized(std::string_view op, const std::string& fields);
/// Completes the configuration "variant=warp,threads=64" of a normalized problem. Throws the errors of complete_config().
Case case_of(const Problem& problem, const DeviceInfo& device, const std::string& config);
/// Parses the problem, too.
Case case_of(std::string_view op, const std::string& fields, const DeviceInfo& device, const std::string& config);

/// Returns edge cases: one column; sizes around vectors, lanes, warps and blocks; padded and odd strides; addresses aligned
/// to only one element; in place; all pairs of dtypes. The problems alternate between the four operations.
std::vector<Problem> edge_problems(std::int64_t rows);

/// Returns problems with every option alone and with all options, for every operation, with alternating shapes: square,
/// aligned and shifted rows, mixed dtypes, in place, rows long enough for several blocks.
std::vector<Problem> option_problems(std::int64_t rows);

/// Returns problems of f64: sizes around vectors, lanes, warps and blocks; padded rows, odd strides, addresses that are
/// aligned to one element only; every option.
std::vector<Problem> f64_problems(std::int64_t rows);

/// Draws `count` configurations from the full search space, including every valid variant.
std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed);

}  // namespace tunesmith::test
