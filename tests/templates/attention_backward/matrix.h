#pragma once
// Problems of attention's backward pass: kernels with their configurations x head sizes x options x user functions x
// strides.

#include <cstdint>
#include <vector>

#include "tests/support/cases.h"

namespace tunesmith::test {

struct BackwardCase {
  Case c;
  std::size_t device = 0;  ///< index
};

/// Draws problems, each with a configuration for one of the devices, and returns those in which each of these occurs that
/// occurs in any drawn one:
/// - each schedule of the list, and each value of a configuration, in its variant; each variant and dtype on each device;
/// - each class of a field's values (tests/random/coverage.h) in each variant;
/// - each head size in wgmma; each option with small and large heads in each variant, and in each kind of wgmma's kernels.
std::vector<BackwardCase> backward_matrix(const std::vector<DeviceInfo>& devices, std::uint64_t seed);

/// Fails the current test if a variant, a field or a kind of wgmma's kernels is missing. `devices` have the variants.
void expect_complete(const std::vector<BackwardCase>& cases);

}  // namespace tunesmith::test
