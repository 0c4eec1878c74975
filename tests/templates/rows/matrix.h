#pragma once
// Problems of all operations over rows: programs with their options x schedules x access patterns x dtypes.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cases.h"
#include "tests/support/largest_errors.h"

namespace tunesmith::test {

/// Returns the families of operations over rows by the folder of their kernels: "softmax", "cross_entropy", "programs".
std::vector<std::string> row_families();

struct MatrixCase {
  Case c;
  std::size_t device = 0;    ///< index
  std::string program = {};  ///< of a row program, as written
};

/// Draws problems of a family, each for one of the devices, and returns those in which each of these occurs that occurs in
/// any drawn one:
/// - each schedule and each configuration value of its variant; each operation, program and dtype in each variant;
/// - each class of a field's values (tests/random/coverage.h) in each operation; each option that is chosen in each variant;
/// - each access pattern in each variant, with each dtype and each operation; each variant and dtype on each device.
std::vector<MatrixCase> row_matrix(const std::string& family, const std::vector<DeviceInfo>& devices, std::uint64_t seed);

/// Fails the current test if a variant or a dtype of the family's operations, a kernel of a bucket, or a program is missing.
void expect_complete(const std::string& family, const std::vector<MatrixCase>& cases);

/// Checks the errors that a family documents, and that the cases show rounding errors.
void expect_accurate(const std::string& family, const LargestErrors& errors);

}  // namespace tunesmith::test
