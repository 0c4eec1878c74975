#pragma once
// The generated part of a row program's source: `struct Program`, which the kernels are templates over. Internal to
// templates/.

#include <string>
#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns the type that kernels take the program as.
std::string program_type(const Program& program);
/// Returns `struct Program`. The types of all arrays are known (with_dtype()). `column_types`: the type that loads each
/// input [col], such as "Columns<float, 4>". `any_strides`: arrays [row, col] have columns_member() and vectors_member().
std::string program_definition(const Program& program, const std::vector<std::string>& column_types,
                               bool any_strides = false);

}  // namespace tunesmith::row_program
