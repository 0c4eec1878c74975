// The generic form of a row program's problem, and the checks across its fields.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/op.h"
#include "templates/row_program/passes/gradient.h"
#include "templates/row_program/strided_op.h"
#include "tunesmith/dispatch.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Splits "a=b;c=d"; commas separate, too.
std::vector<std::pair<std::string, std::string>> pairs_of(std::string_view text, const char* field, const char* form) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(";,"), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size())
      throw Error(ErrorCode::invalid_argument, field, " has '", item, "'; expected ", form);
    pairs.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return pairs;
}

template <typename Number>
Number number_of(const std::string& name, const std::string& text, const char* field) {
  Number number{};
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || rest != text.data() + text.size())
    throw Error(ErrorCode::invalid_argument, field, " has ", name, "='", text, "'; expected ",
                std::is_integral_v<Number> ? "an integer that fits 64 bits" : "a number that fits float64");
  return number;
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ";") + item;
  return text;
}

const RowProgramArray* find_array(const RowProgramProblem& p, const std::string& name) {
  for (const RowProgramArray& array : p.program.arrays())
    if (array.name == name) return &array;
  return nullptr;
}

const RowProgramArray& array_of(const RowProgramProblem& p, const std::string& name, const char* field) {
  if (const RowProgramArray* const found = find_array(p, name)) return *found;
  std::string known;
  for (const RowProgramArray& array : p.program.arrays()) known += (known.empty() ? "" : ", ") + array.name;
  throw Error(ErrorCode::invalid_argument, field, " names the array '", name, "'; allowed: ", known);
}

bool has_rows(const RowProgramArray& array) {
  return array.dims == RowProgramDims::full || array.dims == RowProgramDims::group || array.dims == RowProgramDims::top;
}

/// Puts properties in the order of the arrays and drops those that are the default.
template <typename IsDefault>
void normalize(const RowProgramProblem& p, std::vector<RowProgramOfArray>& properties, const char* field,
               const IsDefault& is_default) {
  for (const RowProgramOfArray& property : properties) array_of(p, property.array, field);
  std::vector<RowProgramOfArray> sorted;
  for (const RowProgramArray& array : p.program.arrays())
    if (const std::int64_t* const value = find_property(properties, array.name);
        value != nullptr && !is_default(array, *value))
      sorted.push_back({array.name, *value});
  properties = std::move(sorted);
}

void complete_numbers(RowProgramProblem& p) {
  const row_program::Program program = row_program::parse(p.program.text(), row_program::text_name);
  std::string known;
  for (const row_program::Number& number : program.numbers) known += (known.empty() ? "" : ", ") + number.name;
  for (const RowProgramNumber& given : p.numbers)
    if (std::ranges::find(program.numbers, given.name, &row_program::Number::name) == program.numbers.end())
      throw Error(ErrorCode::invalid_argument, "numbers has '", given.name,
                  "'; allowed: ", known.empty() ? "none, the program declares no numbers" : known);
  std::vector<RowProgramNumber> sorted;
  for (const row_program::Number& number : program.numbers) {
    const auto given = std::ranges::find(p.numbers, number.name, &RowProgramNumber::name);
    if (given == p.numbers.end()) {
      if (!number.value)
        throw Error(ErrorCode::invalid_argument, "numbers has no ", number.name,
                    ", which the program declares without a value");
      continue;
    }
    if (number.type == row_program::Type::i32 &&
        (given->value != std::nearbyint(given->value) || std::fabs(given->value) > 2147483647.0))
      throw Error(ErrorCode::invalid_argument, number.name, " is ", given->value, "; allowed: integers of 32 bits");
    const auto same = [&](double a, double b) {
      return computes_in_f64(p) ? a == b : static_cast<float>(a) == static_cast<float>(b);
    };
    const bool is_default = number.value && same(*number.value, given->value);
    if (!is_default) sorted.push_back(*given);
  }
  p.numbers = std::move(sorted);
}

/// Checks strides of arrays [row, col] whose columns are not adjacent: they may be in any order.
void check_any_strides(const RowProgramProblem& p, const std::vector<RowProgramOfArray>& strides, const char* field) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  for (const RowProgramOfArray& stride : strides) {
    const RowProgramArray& array = array_of(p, stride.array, field);
    if (array.dims != RowProgramDims::full)
      throw Error(ErrorCode::invalid_argument, field, " has ", array.name, ", which is not an array [row, col]");
    if (stride.value < 0 || stride.value > most)
      throw Error(ErrorCode::invalid_argument, field, " has ", array.name, "=", stride.value, "; allowed: 0 to ", most);
  }
}

void complete_strides(RowProgramProblem& p) {
  const std::int64_t group = std::max<std::int64_t>(p.program.group(), 1);
  const auto width = [&](const RowProgramArray& array) {
    if (array.dims == RowProgramDims::top) return p.program.top();
    return array.dims == RowProgramDims::group ? p.cols / group : p.cols * p.inner;
  };
  check_any_strides(p, p.col_strides, "col_strides");
  check_any_strides(p, p.inner_strides, "inner_strides");
  for (const RowProgramOfArray& stride : p.row_strides) {
    const RowProgramArray& array = array_of(p, stride.array, "row_strides");
    if (p.inner > 1 && array.dims == RowProgramDims::top)
      throw Error(ErrorCode::invalid_argument, "row_strides has ", array.name, ", and inner is ", p.inner,
                  "; allowed with inner: arrays [row, col]");
    if (!has_rows(array))
      throw Error(ErrorCode::invalid_argument, "row_strides has ", array.name,
                  ", which is not an array [row, col], [row, col/N] or [row, k]");
    if (p.strided() && array.dims == RowProgramDims::full)
      check_any_strides(p, {stride}, "row_strides");
    else if (stride.value < width(array) && !(stride.value == 0 && !array.output))
      throw Error(ErrorCode::invalid_argument, "row_strides has ", array.name, "=", stride.value,
                  "; allowed: ", array.output ? "" : "0, or ", "at least ", width(array));
  }
  for (const RowProgramArray& array : p.program.arrays())
    if (p.strided() && array.output && array.dims == RowProgramDims::full)
      strided::check_output(row_program::strided_array_of(p, array.name, array.dtype.value_or(p.dtype)), p.rows, p.cols,
                            p.inner);
  normalize(p, p.row_strides, "row_strides",
            [&](const RowProgramArray& array, std::int64_t stride) { return stride == width(array); });
  normalize(p, p.col_strides, "col_strides", [&](const RowProgramArray&, std::int64_t stride) { return stride == p.inner; });
  normalize(p, p.inner_strides, "inner_strides",
            [&](const RowProgramArray&, std::int64_t stride) { return stride == 1 || p.inner == 1; });
}

void complete_alignments(RowProgramProblem& p) {
  for (RowProgramOfArray& alignment : p.alignments) {
    const RowProgramArray& array = array_of(p, alignment.array, "alignments");
    const std::int64_t element = size_of(array.dtype.value_or(p.dtype));
    if (alignment.value < element || (alignment.value & (alignment.value - 1)) != 0)
      throw Error(ErrorCode::invalid_argument, "alignments has ", array.name, "=", alignment.value,
                  "; allowed: a power of two from ", element, " up");
    alignment.value = std::min<std::int64_t>(alignment.value, 16);
  }
  normalize(p, p.alignments, "alignments", [](const RowProgramArray&, std::int64_t bytes) { return bytes == 16; });
}

void set_property(std::vector<RowProgramOfArray>& properties, const std::string& array, std::int64_t value) {
  for (RowProgramOfArray& property : properties)
    if (property.array == array) {
      property.value = value;
      return;
    }
  properties.push_back({array, value});
}

/// Returns "row stride 64", or all strides of an array [row, col] if columns are not adjacent.
std::string strides_text(const RowProgramProblem& p, const std::string& array) {
  const strided::Array strides = row_program::strided_array_of(p, array, p.dtype);
  if (!p.strided()) return "row stride " + std::to_string(strides.row_stride);
  return "strides " + std::to_string(strides.row_stride) + ", " + std::to_string(strides.col_stride) + ", " +
         std::to_string(strides.inner_stride);
}

/// Both arrays of a pair get the smaller alignment.
void complete_in_place(RowProgramProblem& p) {
  const auto property = [](const std::vector<RowProgramOfArray>& properties, const std::string& name, std::int64_t usual) {
    const std::int64_t* const value = find_property(properties, name);
    return value == nullptr ? usual : *value;
  };
  for (std::size_t i = 0; i < p.in_place.size(); ++i) {
    const RowProgramInPlace& pair = p.in_place[i];
    const RowProgramArray &output = array_of(p, pair.output, "in_place"), &input = array_of(p, pair.input, "in_place");
    const bool are_rows =
        output.output && !input.output && output.dims == RowProgramDims::full && input.dims == RowProgramDims::full;
    if (!are_rows)
      throw Error(ErrorCode::invalid_argument, "in_place has ", pair.output, "=", pair.input,
                  "; expected an output [row, col] and an input [row, col]");
    for (std::size_t k = 0; k < i; ++k)
      if (p.in_place[k].output == pair.output || p.in_place[k].input == pair.input)
        throw Error(ErrorCode::invalid_argument, "in_place has ", pair.output, "=", pair.input, " and ",
                    p.in_place[k].output, "=", p.in_place[k].input, "; each array may occur once");
    const DType from = input.dtype.value_or(p.dtype), to = output.dtype.value_or(p.dtype);
    const std::string read = strides_text(p, input.name), written = strides_text(p, output.name);
    if (from != to || read != written)
      throw Error(ErrorCode::invalid_argument, "in_place has ", pair.output, "=", pair.input, ", but ", input.name, " (",
                  name(from), ", ", read, ") and ", output.name, " (", name(to), ", ", written, ") differ; both must agree");
    const std::int64_t bytes = std::min(property(p.alignments, input.name, 16), property(p.alignments, output.name, 16));
    set_property(p.alignments, input.name, bytes);
    set_property(p.alignments, output.name, bytes);
  }
  std::ranges::sort(p.in_place, {}, &RowProgramInPlace::output);
}

}  // namespace

RowProgramText::RowProgramText(std::string text) : text_(std::move(text)) {
  const row_program::Program program = row_program::parse(text_, row_program::text_name);
  const auto add = [&](const auto& array, bool output) {
    RowProgramArray made{array.name, output, row_program::dims_of(array.kind), std::nullopt};
    if (array.type) made.dtype = row_program::dtype_of(*array.type);
    arrays_.push_back(std::move(made));
  };
  for (const row_program::Input& input : program.inputs) add(input, false);
  for (const row_program::Output& output : program.outputs) add(output, true);
  group_ = program.group;
  top_ = program.top;
}

RowProgramText RowProgramText::shipped(std::string_view name) {
  if (std::string text = row_program::shipped_program(name); !text.empty()) return text;
  std::string known;
  for (const auto& [program, text] : row_program::shipped_programs())
    known += (known.empty() ? "" : ", ") + std::string(program);
  throw Error(ErrorCode::invalid_argument, "no program '", name, "' is shipped; allowed: ", known,
              ", and each of them with _gradient");
}

RowProgramText RowProgramText::gradient() const {
  return row_program::gradient_text(row_program::parse(text_, row_program::text_name));
}

Value FieldType<std::vector<RowProgramNumber>>::get(const std::vector<RowProgramNumber>& member) {
  std::vector<std::string> items;
  for (const RowProgramNumber& number : member) items.push_back(number.name + "=" + text(Value(number.value)));
  return joined(items);
}
void FieldType<std::vector<RowProgramNumber>>::set(std::vector<RowProgramNumber>& member, const Value& value) {
  member.clear();
  for (const auto& [name, number] : pairs_of(std::get<std::string>(value), "numbers", "NAME=VALUE;NAME=VALUE"))
    member.push_back({name, number_of<double>(name, number, "numbers")});
}

Value FieldType<std::vector<RowProgramOfArray>>::get(const std::vector<RowProgramOfArray>& member) {
  std::vector<std::string> items;
  for (const RowProgramOfArray& property : member) items.push_back(property.array + "=" + std::to_string(property.value));
  return joined(items);
}
void FieldType<std::vector<RowProgramOfArray>>::set(std::vector<RowProgramOfArray>& member, const Value& value) {
  member.clear();
  constexpr const char* what = "row_strides, col_strides, inner_strides or alignments";
  for (const auto& [name, number] : pairs_of(std::get<std::string>(value), what, "ARRAY=INTEGER;ARRAY=INTEGER"))
    member.push_back({name, number_of<std::int64_t>(name, number, what)});
}

Value FieldType<std::vector<RowProgramInPlace>>::get(const std::vector<RowProgramInPlace>& member) {
  std::vector<std::string> items;
  for (const RowProgramInPlace& pair : member) items.push_back(pair.output + "=" + pair.input);
  return joined(items);
}
void FieldType<std::vector<RowProgramInPlace>>::set(std::vector<RowProgramInPlace>& member, const Value& value) {
  member.clear();
  for (const auto& [output, input] : pairs_of(std::get<std::string>(value), "in_place", "OUTPUT=INPUT;OUTPUT=INPUT"))
    member.push_back({output, input});
}

void complete(RowProgramProblem& p) {
  if (p.program.empty()) throw Error(ErrorCode::invalid_argument, "program is empty; expected the text of a row program");
  row_program::check_supported(row_program::parse(p.program.text(), row_program::text_name), p.program.text());
  if (p.program.group() > 0 && p.cols % p.program.group() != 0)
    throw Error(ErrorCode::invalid_argument, "cols is ", p.cols, "; allowed: multiples of ", p.program.group(),
                ", the columns of the program's groups");
  if (p.cols < p.program.top())
    throw Error(ErrorCode::invalid_argument, "cols is ", p.cols, "; allowed: at least ", p.program.top(),
                ", the columns that the program's topk chooses");
  for (const RowProgramArray& array : p.program.arrays())
    if (p.cols == 0 && array.output && (array.dims == RowProgramDims::row || array.dims == RowProgramDims::scalar))
      throw Error(ErrorCode::invalid_argument, "cols is 0, and the output ", array.name, " has an element",
                  array.dims == RowProgramDims::row ? " for each row" : "", "; allowed: 1 to ", max_cols,
                  ", or 0 if all outputs have columns");
  if (p.inner > 1 && p.program.group() > 0)
    throw Error(ErrorCode::unsupported, "inner is ", p.inner, "; a program with groups of columns has no inner dimension");
  if (p.strided() && p.program.group() > 0)
    throw Error(ErrorCode::unsupported, "col_strides is ",
                text(FieldType<std::vector<RowProgramOfArray>>::get(p.col_strides)),
                "; a program with groups of columns needs adjacent columns");
  complete_numbers(p);
  complete_strides(p);
  complete_in_place(p);
  complete_alignments(p);
}

void adopt(RowProgramProblem& problem, const RowProgramArrays& arrays) {
  std::size_t inputs = 0, outputs = 0;
  const std::vector<RowProgramArray>& declared = problem.program.arrays();
  const auto address_of = [&](const RowProgramArray& array) -> const void* {
    return array.output ? arrays.outputs[outputs++] : arrays.inputs[inputs++];
  };
  problem.in_place.clear();
  std::vector<std::pair<const RowProgramArray*, const void*>> read;
  for (const RowProgramArray& array : declared) {
    if (array.output ? outputs == arrays.outputs.size() : inputs == arrays.inputs.size())
      throw Error(ErrorCode::unsupported, "the program has more arrays than a call takes: 12 inputs and 8 outputs");
    const void* const address = address_of(array);
    const bool empty = problem.rows == 0 || problem.cols == 0;
    set_property(problem.alignments, array.name, empty ? 16 : alignment_class(address));
    if (array.dims != RowProgramDims::full || address == nullptr || empty) continue;
    if (!array.output) read.emplace_back(&array, address);
    for (const auto& [input, from] : read)
      if (array.output && from == address) problem.in_place.push_back({array.name, input->name});
  }
  const auto check_rest = [](const auto& addresses, std::size_t declared_count, const char* which) {
    for (std::size_t i = declared_count; i < addresses.size(); ++i)
      if (addresses[i] != nullptr)
        throw Error(ErrorCode::invalid_argument, which, "[", i, "] is given, but the program has ", declared_count,
                    "; expected null pointers after the last one");
  };
  check_rest(arrays.inputs, inputs, "inputs");
  check_rest(arrays.outputs, outputs, "outputs");
}

}  // namespace tunesmith
