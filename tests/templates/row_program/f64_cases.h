#pragma once
// Programs that compute in f64 for the kernel tests.

#include <vector>

#include "tests/templates/row_program/op_cases.h"

namespace tunesmith::test {

/// Returns programs of every kind with arrays of f64 next to arrays of other types.
const std::vector<NamedProgram>& f64_row_programs();

}  // namespace tunesmith::test
