#pragma once
// Problems with configurations for the kernel tests.

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

/// Draws `count` configurations from the full search space, including every valid variant.
std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed);

}  // namespace tunesmith::test
