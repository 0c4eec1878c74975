#pragma once
// Descriptions of a row program for keys of records. Internal to templates/.

#include <string>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns a text that is equal for programs that compute the same values by the same operations: names, blanks, comments,
/// parentheses, and the order of independent statements do not matter. Order and types of arrays and numbers do; the order
/// of inputs only within one kind. Defaults of numbers do not matter.
std::string canonical_text(const Program& program);

/// Returns what the cost of a program depends on, rounded so that similar programs have the same class: arrays by kind and
/// type, stages, reduced values, operations and special functions for each element.
std::string cost_class(const Program& program);

}  // namespace tunesmith::row_program
