#pragma once
// Completes a problem from the files of a run: shapes, element types, and the options of optional arrays.

#include "api/cli/input/arrays.h"

namespace tunesmith::cli {

/// Sets each field that is a length of an input file's array (rows, cols; batch, heads, seq_q), and the field of its element
/// type (dtype, target_dtype). Optional arrays set only lengths that no other array has (mask and valid_cols none,
/// cu_seqlens_q batch); if exactly one option enables them, it is set. A 1-D file is one row of a matrix. Throws
/// Error(invalid_argument) if a file has another rank or contradicts a given field, or if its array is not an input of the
/// operation.
Problem with_file_shapes(const Op& op, Problem problem, const InputFiles& files);

/// Enables the arrays that have files, unless their field is given: a switch, the one choice that gives an input the length
/// of its file (dloss=row), the first choice that enables an output (gradient=separate). `problem` has its shape. Ambiguous
/// arrays stay disabled.
Problem with_arrays_of_files(const Op& op, Problem problem, const InputFiles& inputs, const FileMap& outputs);

}  // namespace tunesmith::cli
