#pragma once
// A row program as a checked graph. The parser makes it; the generated kernel, the float64 evaluation and the gradient are
// made of it. Internal to templates/.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/enum_names.h"

namespace tunesmith::row_program {

/// A position in the text. Lines and columns count from 1.
struct Place {
  int line = 0, column = 0;
};

/// Element types of arrays, and of rounding. Indices are i32; comparisons are boolean. Arithmetic is f32, or f64 in programs
/// with an array of f64 (computes_in_f64()); nodes have the type f32 in either case.
enum class Type : std::uint8_t { f64, f32, f16, bf16, e4m3, e5m2, i8, i32, boolean };

/// Returns the type in which the program computes with elements of this type: f32, i32 or boolean.
constexpr Type value_type(Type element) noexcept {  // f32 stands for the type of arithmetic
  return element == Type::i32 || element == Type::boolean ? element : Type::f32;
}

/// The dimensions along which a value varies. Elementwise functions broadcast: the result varies along the dimensions of all
/// operands.
enum class Kind : std::uint8_t {
  scalar,  ///< []
  row,     ///< [row]
  top,     ///< [row, k], where k is Program::top: of the columns that topk chooses
  col,     ///< [col]
  group,   ///< [row, col / N], where N is Program::group
  full,    ///< [row, col]
};

/// The operation of a node.
enum class Operation : std::uint8_t {
  // Leaves.
  constant,   ///< Node::value
  input,      ///< element of Program::inputs[Node::index]
  number,     ///< Program::numbers[Node::index]
  row_index,  ///< i32, kind row
  col_index,  ///< i32, kind col
  rows,       ///< number of rows, i32
  cols,       ///< number of columns, i32
  rank,       ///< 0 to k - 1, i32, kind top
  reduced,    ///< result Node::part of Program::reductions[Node::index]
  parameter,  ///< of a monoid's combine: 0 to 2 n - 1
  // Functions of one value.
  negate,
  absolute,
  exp,
  exp2,
  log,
  log1p,
  tanh,
  erf,
  sqrt,
  rsqrt,
  sigmoid,
  floor,
  round,     ///< to the nearest integer, ties to even
  round_to,  ///< to Node::type and back
  logical_not,
  uniform,  ///< random number in (0, 1) for (operand = seed, row, column, Node::index)
  // Functions of two values.
  add,
  subtract,
  multiply,
  divide,
  minimum,  ///< NaN if an operand is NaN, as is maximum
  maximum,
  less,
  less_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  scatter,  ///< kind full: the sum of operand 1 where operand 0 is the column; both of kind top, row or scalar
  // Of three.
  select,  ///< operand 0 ? operand 1 : operand 2
};

/// A value. Its operands precede it in Program::nodes; equal subexpressions are one node.
///
/// The type is f32 (in programs that compute in f64, that), i32 or boolean. Functions take and give f32, with these
/// exceptions: comparisons, minimum, maximum and select also take two i32; scatter takes an i32 and an f32; equal, not_equal
/// and select also take two booleans; logical functions take and give booleans. The type of round_to is the one that is
/// rounded to: f32 and i32 convert from i32 and f32, all others give an f32 that the type can represent. Rounding is to
/// nearest, ties to even. e4m3, e5m2, i8 and i32 saturate; f16 and bf16 overflow to inf. NaN stays NaN in floating-point
/// types and gives 0 in i8 and i32. Other conversions between f32 and i32 do not occur.
struct Node {
  Operation operation = Operation::constant;
  Kind kind = Kind::scalar;
  Type type = Type::f32;
  std::array<int, 3> operands{-1, -1, -1};  ///< indices into Program::nodes
  int index = 0;
  int part = 0;
  double value = 0;       ///< of a constant, rounded to the type of arithmetic
  double wide_value = 0;  ///< of a constant for arithmetic in f64, until with_dtype() decides between the two
  /// Stage of the program after which the value can be computed: 0 without reductions, otherwise the largest
  /// Reduction::stage it depends on.
  int stage = 0;
  Place place;
  bool to_problem_dtype = false;  ///< round_to: to the dtype of the problem; with_dtype() sets the type
  std::string name;               ///< of the definition; empty for other values
};

/// A reduction has one result, with these exceptions (Node::part):
///   moments   0: mean, 1: variance (divided by the number of columns)
///   lse       0: log(sum(exp(x))), 1: maximum m, 2: sum(exp(x - m)), which is NaN unless m is finite
///   topk      0: the k largest values in descending order, 1: their columns, 2 on: the further operands at these columns
///   custom    one for each component of the monoid
/// Reductions take f32 and give f32. argmax, argmin and count give i32; any, all and count take booleans; any and all give
/// booleans. NaN is larger than any number for argmax and topk, and smaller for argmin; ties give the lowest column. A
/// result of topk has the kind top, and its columns are i32.
enum class Reducer : std::uint8_t { sum, mean, max, min, lse, moments, argmax, argmin, any, all, count, topk, custom };

/// Columns of a row, or of each group of its columns, combined to one value or few.
struct Reduction {
  Reducer reducer = Reducer::sum;
  std::vector<int> operands;    ///< nodes; one, or a monoid's
  bool grouped = false;         ///< one result for each group of Program::group columns
  bool of_top = false;          ///< over values of kind top: every thread has them all, so there is no exchange
  bool of_few_columns = false;  ///< in kernels: of a row on the chip, so that a thread has few of its columns (separate.h)
  int monoid = -1;              ///< of Program::monoids, for Reducer::custom
  int gathered_at = -1;         ///< in kernels: the node of the only column whose term is not 0 (gather.h); -1: unknown
  /// 1 + the largest stage of its operands, or this stage itself for of_top. Reductions of one stage are computed together.
  int stage = 1;
  Place place;

  /// Reports whether threads combine partial results of it.
  bool is_exchanged() const { return !of_top && gathered_at < 0; }
};

/// A user's associative function: combine((a...), (b...)) with an identity.
struct Monoid {
  std::string name;
  std::vector<double> identity;       ///< one for each component; an f32 unless with_dtype() chose f64
  std::vector<double> wide_identity;  ///< the same for arithmetic in f64
  std::vector<Node> nodes;            ///< graph over Operation::parameter; operands are indices into it
  std::vector<int> results;           ///< one for each component
  Place place;
};

struct Input {
  std::string name;
  std::optional<Type> type;  ///< absent: the dtype of the problem
  Kind kind = Kind::full;
  Place place;
};

/// A named number that is a parameter of the launch.
struct Number {
  std::string name;
  Type type = Type::f32;  ///< f32 or i32
  std::optional<double> value;
  Place place;
};

struct Output {
  std::string name;
  std::optional<Type> type;  ///< absent: the dtype of the problem
  Kind kind = Kind::full;
  int node = -1;
  Place place;
  /// `colsum`. Kind col: the sum of the node over all rows. Kind scalar: the sum of all elements of the node over all rows.
  /// After with_dtype() the node varies along the columns, and the sum is over rows and columns.
  bool sum_over_rows = false;
};

/// A checked program. Every node contributes to an output.
struct Program {
  std::vector<Input> inputs;
  std::vector<Number> numbers;
  std::vector<Node> nodes;
  std::vector<Reduction> reductions;
  std::vector<Monoid> monoids;
  std::vector<Output> outputs;
  int group = 0;   ///< columns of a group; 0: no groups
  int top = 0;     ///< columns that topk chooses; 0: no values of kind top
  int stages = 0;  ///< largest stage of a reduction
};

/// Reports whether the program computes in f64: one of its arrays has elements of f64. Before with_dtype(), only types that
/// the program states count.
inline bool computes_in_f64(const Program& program) {
  const auto is_f64 = [](const auto& array) { return array.type == Type::f64; };
  return std::ranges::any_of(program.inputs, is_f64) || std::ranges::any_of(program.outputs, is_f64);
}

}  // namespace tunesmith::row_program

namespace tunesmith {

template <>
inline constexpr std::array<std::string_view, 9> enum_names<row_program::Type>{"f64",  "f32", "f16", "bf16", "e4m3",
                                                                               "e5m2", "i8",  "i32", "bool"};
template <>
inline constexpr std::array<std::string_view, 6> enum_names<row_program::Kind>{"[]",    "[row]",        "[row, k]",
                                                                               "[col]", "[row, col/N]", "[row, col]"};
template <>
inline constexpr std::array<std::string_view, 13> enum_names<row_program::Reducer>{
    "sum", "mean", "max", "min", "lse", "moments", "argmax", "argmin", "any", "all", "count", "topk", "reduce"};
template <>
inline constexpr std::array<std::string_view, 40> enum_names<row_program::Operation>{
    "constant", "input", "number", "row",      "col", "rows",    "cols", "rank", "reduced", "parameter",
    "negate",   "abs",   "exp",    "exp2",     "log", "log1p",   "tanh", "erf",  "sqrt",    "rsqrt",
    "sigmoid",  "floor", "round",  "round_to", "!",   "uniform", "+",    "-",    "*",       "/",
    "min",      "max",   "<",      "<=",       "==",  "!=",      "&&",   "||",   "scatter", "select"};

}  // namespace tunesmith
