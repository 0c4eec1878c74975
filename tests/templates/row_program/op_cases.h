#pragma once
// Programs, problems and configurations of row_program for the kernel tests.

#include <string>
#include <vector>

#include "jit/executable.h"
#include "tests/support/cases.h"

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

/// Returns ",numbers=..." with a value for each number that the program declares without one.
std::string numbers_for(const std::string& text);

/// Returns a case of the program for each configuration that its problem has on the device.
std::vector<Case> row_program_cases(const std::string& text, const std::string& fields, const DeviceInfo& device,
                                    const std::vector<const char*>& configs);

/// Returns the shipped softmax in every variant that f32 problems such as "rows=19,cols=1031" have on the device.
std::vector<Case> softmax_program_cases(const std::string& fields, const DeviceInfo& device);
/// Launches the softmax of such a problem on inputs that the hand-written softmax is tested with. Returns the largest error
/// in units in the last place, of rows without NaN or infinite maximum; infinity if an element is NaN. Below 2^-126, where
/// the program may give 0, the unit is 2^-126.
double error_of_softmax(const std::string& fields, const Executable& executable, Device& device, InputKind kind);

}  // namespace tunesmith::test
