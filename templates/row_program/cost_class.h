#pragma once
// Programs whose kernels cost alike, so that a configuration which is fast for one is a good start for the others. Internal
// to templates/.

#include <string>

#include "templates/row_program/program.h"

namespace tunesmith::row_program {

/// Returns what programs of a cost class share: the kinds and types of their arrays in any order, the stages of reductions
/// and the floats that threads exchange in each, values of groups, column sums, and powers of two that the operations and
/// the special functions of a column reach.
std::string cost_class(const Program& program);

}  // namespace tunesmith::row_program
