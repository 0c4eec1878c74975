#pragma once
// Programs that compute in f64, and their problems and configurations, for the kernel tests.

#include <vector>

#include "tests/templates/row_program/op_cases.h"

namespace tunesmith::test {

/// Returns programs of every kind with arrays of f64 next to arrays of other types.
const std::vector<NamedProgram>& f64_row_programs();

/// Returns these and the programs of row_programs() with `float` arrays of f64, in every variant that the device has.
std::vector<Case> f64_row_program_cases(const DeviceInfo& device);

/// Returns programs over a dimension that is not the last.
std::vector<Case> f64_strided_row_program_cases(const DeviceInfo& device);

}  // namespace tunesmith::test
