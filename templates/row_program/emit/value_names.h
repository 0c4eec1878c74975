#pragma once
// Names of a program's values in device code. Internal to templates/.

#include <string>
#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

struct ValueNames {
  std::vector<std::string> values;        ///< of each node: the name in its definition, if it has one
  std::vector<std::string> divisors;      ///< of each node's Divisor
  std::vector<std::string> exponentials;  ///< of each node's ExponentialOfDifference
  std::vector<std::string> partials;      ///< of the reduction of values [row, k] that each node is a result of
};

/// Returns unique names that are not words of C++ or names that the generated code uses.
ValueNames names_of(const Program& program);

}  // namespace tunesmith::row_program
