#pragma once
// The parameters of a row program's kernels, `struct RowProgramParams`: its members, which of them hold addresses, and the
// numbers of sums and partial results that launches need. Internal to templates/.

#include <string>
#include <vector>

#include "templates/row/schedules/staged.h"
#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Names of an array's or a number's members in the kernels' parameters.
std::string address_member(const std::string& array);
std::string stride_member(const std::string& array);
/// Elements from one column of an array to the next, and from one vector of positions to the next.
std::string columns_member(const std::string& array);
std::string vectors_member(const std::string& array);
std::string number_member(const std::string& number);

/// Returns the definition of RowProgramParams. The first array [row, col], an input if there is one, has no member of its
/// own: it is row.input[0].
std::string params_definition(const Program& program);

/// Position of the first array [row, col] in the inputs, or, counted from their end, in the outputs; -1: there is none.
int first_full_array(const Program& program);
/// Returns the names of the parameters that hold the addresses of the arrays [row, col].
row::RowAddresses addresses_of_rows(const Program& program);

/// Returns the number of outputs `colsum` of the kind [col], and of the kind []. Kernels number them in this order.
int column_sums(const Program& program);
int totals(const Program& program);

/// Floats of the partial results that the threads of a row exchange after a stage; a double counts as two.
int exchanged_floats(const Program& program, int stage);
/// The most of any stage, at least 1.
int max_exchanged_floats(const Program& program);

}  // namespace tunesmith::row_program
