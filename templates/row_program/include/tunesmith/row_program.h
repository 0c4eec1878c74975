#pragma once
// A user's program for the rows of matrices as a typed problem. docs/row-programs.md describes the language.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/description.h"
#include "tunesmith/row_fields.h"
#include "tunesmith/strided_fields.h"

namespace tunesmith {

/// The dimensions of an array of a program: [], [row], [col], [row, col / N], [row, col], [row, k].
enum class RowProgramDims : std::uint8_t { scalar, row, col, group, full, top };

/// An array that a program declares.
struct RowProgramArray {
  std::string name;
  bool output = false;
  RowProgramDims dims = RowProgramDims::full;
  std::optional<DType> dtype{};  ///< absent: RowProgramProblem::dtype; u8 for `bool`, a byte 0 or 1
  bool operator==(const RowProgramArray&) const = default;
};

/// A program's text, and the arrays that it declares. Programs are equal if their texts are.
class RowProgramText {
 public:
  constexpr RowProgramText() = default;
  /// Throws Error(invalid_argument) that shows the line with the mistake and says what is allowed.
  RowProgramText(std::string text);  // NOLINT(google-explicit-constructor): problem.program = "..."
  RowProgramText(const char* text) : RowProgramText(std::string(text)) {}  // NOLINT(google-explicit-constructor)

  /// Returns a shipped program, such as "layer_norm", or the gradient of one, "layer_norm_gradient". Throws
  /// Error(invalid_argument) with the list of names.
  static RowProgramText shipped(std::string_view name);
  /// Returns the program that computes the gradient (docs/row-programs.md). Its inputs are the inputs of this program that
  /// it needs, and d<output> for each output; its outputs are d<input>. Throws Error(invalid_argument) if there is none.
  RowProgramText gradient() const;

  const std::string& text() const noexcept { return text_; }
  constexpr bool empty() const noexcept { return text_.empty(); }
  /// Returns the inputs and then the outputs, each in the order of their declarations: the order of a launch.
  constexpr const std::vector<RowProgramArray>& arrays() const noexcept { return arrays_; }
  /// Returns the columns of a group; 0: the program has no groups.
  constexpr std::int64_t group() const noexcept { return group_; }
  /// Returns the columns that topk chooses, k of arrays [row, k]; 0: there are none.
  constexpr std::int64_t top() const noexcept { return top_; }
  bool operator==(const RowProgramText& other) const noexcept { return text_ == other.text_; }

 private:
  std::string text_;
  std::vector<RowProgramArray> arrays_;
  std::int64_t group_ = 0, top_ = 0;
};

/// The value of a number that the program declares.
struct RowProgramNumber {
  std::string name;
  double value = 0;
  bool operator==(const RowProgramNumber&) const = default;
};
/// A property of one array.
struct RowProgramOfArray {
  std::string array;
  std::int64_t value = 0;
  bool operator==(const RowProgramOfArray&) const = default;
};
/// An output that overwrites an input.
struct RowProgramInPlace {
  std::string output, input;
  bool operator==(const RowProgramInPlace&) const = default;
};

/// Addresses in device memory, in the order of the program's declarations; nullptr after the last.
struct RowProgramArrays {
  std::array<const void*, 12> inputs{};
  std::array<void*, 8> outputs{};
};

/// A program for every row: elementwise expressions and reductions over the columns. Arithmetic is float32, or float64 if an
/// array has f64; each output is rounded once, to its type. Rows are read once and written once where they fit on chip,
/// otherwise read once for each stage of reductions and once more.
///
///   problem.program = R"(
///     in  x : float[row, col]
///     in  w : f32[col]
///     num eps : f32 = 1e-6
///     sum ss = x * x
///     out y : float[row, col] = x * rsqrt(ss / cols + eps) * w
///   )";
///
/// Over a dimension that is not the last, such as the classes of (batch, class, height * width), `inner` is greater than 1:
/// each of the rows * inner positions is a row of the program. Arrays [row, col] are (rows, cols, inner), arrays [row] are
/// (rows, inner), and arrays [row, k] are (rows, inner, k). Sums over rows are over all rows and positions. The program has
/// no groups of columns.
///
/// Arrays [row, col] may have any strides between rows, columns and positions: a transposed matrix, for example. Inputs may
/// repeat elements. If the columns of an array are not adjacent, the program has no groups, either.
///
/// Limits: 4 inputs and 3 outputs [row, col], at least one of them.
struct RowProgramProblem {
  using Arrays = RowProgramArrays;

  RowProgramText program{};
  std::int64_t rows = 0;     ///< >= 0
  std::int64_t cols = 1;     ///< >= 0; a tuned kernel is specialized for it. 0: no launch, if all outputs have columns
  DType dtype = DType::f32;  ///< of arrays that the program declares as `float`: f32, f16, bf16 or f64
  std::vector<RowProgramNumber> numbers{};         ///< numbers without a default, or with another value
  std::vector<RowProgramOfArray> row_strides{};    ///< elements between rows; absent: length of a row; 0: one row for all
  std::vector<RowProgramInPlace> in_place{};       ///< outputs [row, col] that overwrite an input of the same dtype
  std::vector<RowProgramOfArray> alignments{};     ///< bytes that an address is a multiple of; absent: 16
  std::int64_t inner = 1;                          ///< positions of each column: arrays [row, col] are (rows, cols, inner)
  std::vector<RowProgramOfArray> col_strides{};    ///< of arrays [row, col]: elements between columns, >= 0; absent: inner
  std::vector<RowProgramOfArray> inner_strides{};  ///< the same between positions; absent: 1

  constexpr std::string_view op() const noexcept { return "row_program"; }
  /// Returns whether the columns of an array are not adjacent.
  constexpr bool strided() const noexcept {
    bool adjacent = inner == 1;
    for (const RowProgramOfArray& stride : col_strides) adjacent = adjacent && stride.value == 1;
    return !adjacent;
  }
  bool operator==(const RowProgramProblem&) const = default;
};

/// Their generic forms are "eps=1e-5;seed=7", "x=4104;y=0" and "y=x". Setting one throws Error(invalid_argument) if it is
/// malformed.
template <>
struct FieldType<RowProgramText> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const RowProgramText& member) { return member.text(); }
  static void set(RowProgramText& member, const Value& value) { member = std::get<std::string>(value); }
};
template <>
struct FieldType<std::vector<RowProgramNumber>> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const std::vector<RowProgramNumber>& member);
  static void set(std::vector<RowProgramNumber>& member, const Value& value);
};
template <>
struct FieldType<std::vector<RowProgramOfArray>> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const std::vector<RowProgramOfArray>& member);
  static void set(std::vector<RowProgramOfArray>& member, const Value& value);
};
template <>
struct FieldType<std::vector<RowProgramInPlace>> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const std::vector<RowProgramInPlace>& member);
  static void set(std::vector<RowProgramInPlace>& member, const Value& value);
};

/// Returns the value of an array's property; nullptr: it has none.
constexpr const std::int64_t* find_property(const std::vector<RowProgramOfArray>& properties, std::string_view array) {
  for (const RowProgramOfArray& property : properties)
    if (property.array == array) return &property.value;
  return nullptr;
}

/// Reports whether the program computes in float64: an array has elements of f64.
constexpr bool computes_in_f64(const RowProgramProblem& p) {
  for (const RowProgramArray& array : p.program.arrays())
    if (array.dtype.value_or(p.dtype) == DType::f64) return true;
  return false;
}

/// An array of a program, for a description.
constexpr ArrayFacts row_program_array(const RowProgramProblem& p, const RowProgramArray& array) {
  const std::int64_t group = p.program.group() > 0 ? p.program.group() : 1;
  ArrayFacts facts{.name = array.name,
                   .role = array.output ? Role::output : Role::input,
                   .dtype = array.dtype.value_or(p.dtype),
                   .alignment = find_property(p.alignments, array.name),
                   .aligned_to = 16,
                   .meaning = array.output ? "written by the program" : "read by the program"};
  if (array.dims != RowProgramDims::col && array.dims != RowProgramDims::scalar) facts.shape.add(size(p.rows));
  if (array.dims == RowProgramDims::col || array.dims == RowProgramDims::full) facts.shape.add(size(p.cols));
  if (p.inner > 1 && array.dims != RowProgramDims::col && array.dims != RowProgramDims::scalar)
    facts.shape.add(size(p.inner));
  if (array.dims == RowProgramDims::group) facts.shape.add(fixed(p.cols / group, "cols / group"));
  if (array.dims == RowProgramDims::top) facts.shape.add(fixed(p.program.top(), "k"));
  if (array.dims == RowProgramDims::scalar) facts.shape.add(fixed(1));
  if (array.dims == RowProgramDims::full || array.dims == RowProgramDims::group || array.dims == RowProgramDims::top) {
    const std::int64_t* const stride = find_property(p.row_strides, array.name);
    const std::int64_t width = array.dims == RowProgramDims::full  ? p.cols
                               : array.dims == RowProgramDims::top ? p.program.top()
                                                                   : p.cols / group;
    if (p.strided() && array.dims == RowProgramDims::full) {
      const std::int64_t* const col = find_property(p.col_strides, array.name);
      const std::int64_t* const inner = find_property(p.inner_strides, array.name);
      facts.strides = {stride != nullptr ? *stride : row_elements(width, p.inner), col != nullptr ? *col : p.inner};
      if (p.inner > 1) facts.strides.add(inner != nullptr ? *inner : 1);
    } else if (p.inner == 1)
      facts.strides = {stride != nullptr ? *stride : width, 1};
  }
  for (const RowProgramInPlace& pair : p.in_place)
    if (pair.output == array.name) facts.in_place_of = pair.input;
  return facts;
}

template <DescribedAs<RowProgramProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const RowProgramArrays& arrays, Visitor& v) {
  v.field("program", p.program,
          {.meaning = "text of the program; the command line takes its file, or the name of a shipped program",
           .required = true});
  v.field("rows", p.rows, {.meaning = "number of rows", .range = {0}, .required = true, .runtime = true});
  v.field("cols", p.cols,
          {.meaning = "number of columns; kernels are specialized for it", .range = {0, max_cols}, .required = true});
  v.field("dtype", p.dtype,
          {.meaning = "element type of arrays that the program declares as float", .choices = float_or_double_dtypes});
  v.option("numbers", p.numbers, {.meaning = "values of the program's numbers, such as eps=1e-5;seed=7", .runtime = true});
  v.option("row_strides", p.row_strides,
           {.meaning = "elements from one row of an array to the next, such as x=4104;y=0; 0: one row for all"});
  v.option("in_place", p.in_place, {.meaning = "outputs that overwrite an input, such as y=x"});
  v.option("alignments", p.alignments,
           {.meaning = "bytes that the address of an array is a multiple of, such as x=4; 16 for others"});
  v.option("inner", p.inner, inner_facts());
  v.option("col_strides", p.col_strides,
           {.meaning = "elements from one column of an array to the next, such as x=1;y=200; inner for others"});
  v.option("inner_strides", p.inner_strides,
           {.meaning = "elements from one position of an array to the next, such as x=64; 1 for others"});
  if constexpr (requires { v.user_array(arrays.inputs[0]); }) {
    for (const void* const input : arrays.inputs) v.user_array(input);
    for (const void* const output : arrays.outputs) v.user_array(output);
  } else {
    std::size_t inputs = 0, outputs = 0;
    for (const RowProgramArray& array : p.program.arrays()) {
      const void* const address = array.output ? (outputs < arrays.outputs.size() ? arrays.outputs[outputs] : nullptr)
                                               : (inputs < arrays.inputs.size() ? arrays.inputs[inputs] : nullptr);
      ++(array.output ? outputs : inputs);
      v.array(address, row_program_array(p, array));
    }
  }
}

/// Sets alignments and in_place from the addresses of a one-shot call. Throws Error(invalid_argument) for an address beyond
/// the program's arrays.
void adopt(RowProgramProblem& problem, const RowProgramArrays& arrays);

}  // namespace tunesmith
