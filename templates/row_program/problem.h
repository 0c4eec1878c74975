#pragma once
// A problem's program, resolved: the basis of the kernels, the parameters and the reference. Internal to templates/.

#include <string>
#include <vector>

#include "templates/row/own_params.h"
#include "templates/row/shape.h"
#include "templates/row_program/language/program.h"
#include "tunesmith/row_program.h"

namespace tunesmith::row_program {

/// Name of a program's text in errors.
inline constexpr const char* text_name = "program";

/// Returns the bytes that the array's address is a multiple of, as promised.
std::int64_t alignment_of(const RowProgramProblem& problem, const std::string& array);
/// Returns the elements between the array's rows.
std::int64_t stride_of(const RowProgramProblem& problem, const std::string& array, Kind kind);

DType dtype_of(Type type);
Type type_of(DType dtype);
RowProgramDims dims_of(Kind kind);

/// Returns the program of a checked problem; the types of all arrays are known.
Program program_of(const RowProgramProblem& problem);

/// Returns the values of the program's numbers, defaults included.
std::vector<double> numbers_of(const RowProgramProblem& problem, const Program& program);

row::Shape shape_of(const RowProgramProblem& problem, const Program& program);
row::OwnParams params_of(const RowProgramProblem& problem, const Program& program);
/// Returns the part of the problem class that follows the shape's: the program and the loads of its arrays.
std::string problem_class_of(const RowProgramProblem& problem, const Program& program);
/// Returns the types that load the inputs [col]: "Columns<float, 4>".
std::vector<std::string> column_types(const RowProgramProblem& problem, const Program& program, const row::Shape& shape);

/// Returns the type that loads an array [col]: "Columns<float, 4>".
std::string column_type(Type type, int vector);
/// Returns what a kernel of the program is specialized for, as the generated source states it: `cols` columns, or
/// `min_cols` to `cols` if min_cols is not 0.
std::string arrays_text(const Program& program, std::int64_t cols, std::int64_t min_cols = 0);

/// Throws Error(unsupported) with the place in the text for a program that the kernels do not support.
void check_supported(const Program& program, std::string_view text);

}  // namespace tunesmith::row_program
