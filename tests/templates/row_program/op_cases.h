#pragma once
// Programs, problems and configurations of row_program for the kernel tests.

#include <string>
#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

struct NamedProgram {
  std::string name, text;
};

/// Returns programs that together use every reduction, kind of array and element type, and the shipped programs.
const std::vector<NamedProgram>& row_programs();
/// Returns the program of this name.
const std::string& row_program_text(const std::string& name);

/// Returns the normalized problem of a program; `fields` as in "rows=17,cols=64".
Problem row_program_problem(const std::string& text, const std::string& fields);

/// Returns a case of the program for each configuration that its problem has on the device.
std::vector<Case> row_program_cases(const std::string& text, const std::string& fields, const DeviceInfo& device,
                                    const std::vector<const char*>& configs);

/// Returns every program with ragged, misaligned, padded and aligned rows, in every variant that the device has.
std::vector<Case> all_row_program_cases(const DeviceInfo& device);

/// Returns programs over a dimension that is not the last: vectors and single positions, strides, few and many columns.
std::vector<Case> strided_row_program_cases(const DeviceInfo& device);

}  // namespace tunesmith::test
