#pragma once
// Lower bounds that follow from the text of a program. Internal to templates/.

#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns, for each node, a number that its value is never below; -infinity if none is known. Values may be NaN.
std::vector<double> lower_bounds(const Program& program);

}  // namespace tunesmith::row_program
