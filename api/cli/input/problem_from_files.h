#pragma once
// What the files of a run say about its problem: shapes, element types, and options that bring the arrays which files are
// given for.

#include "api/cli/input/arrays.h"

namespace tunesmith::cli {

/// Adds shape and dtype to a problem as the input files have them: each field that is a length of an array which the
/// operation always has (rows, cols; batch, heads, seq_q), and the element type (dtype, target_dtype) that the array
/// follows. Arrays that an option brings tell what no other array could (mask, valid_cols: nothing; cu_seqlens_q: batch);
/// where one option alone brings them it is switched on. A 1-D file is one row where the operation takes a matrix. Throws
/// Error(invalid_argument) when a file has another rank, or contradicts a field that was given, or when its array is no
/// input of the operation.
Problem with_file_shapes(const Op& op, Problem problem, const InputFiles& files);

/// Switches on what brings the arrays that files are given for, unless it was given already: an option that is 0 or 1, a
/// word of which one alone makes an input as long as its file (dloss=row), the first word that makes an output
/// (gradient=separate). `problem` has its shape. What cannot be told is left as it is.
Problem with_arrays_of_files(const Op& op, Problem problem, const InputFiles& inputs, const FileMap& outputs);

}  // namespace tunesmith::cli
