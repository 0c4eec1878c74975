#include "templates/row_program/language/text_of.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/language/symbols.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {
namespace {

constexpr std::size_t longest_text = std::size_t{60} << 10, longest_expression = 90;

/// Writes a number so that it is read back exactly, with the digits of f32 if they suffice.
std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  char* const last = buffer.data() + buffer.size();
  const char* end = std::to_chars(buffer.data(), last, static_cast<float>(value)).ptr;
  double read = 0;
  std::from_chars(buffer.data(), end, read);
  if (read != value) end = std::to_chars(buffer.data(), last, value).ptr;
  return std::string(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
}

/// An expression and the precedence of its outermost operator; 10 for names, calls and numbers.
struct Text {
  std::string text;
  int precedence = 10;
};

int precedence_of(Operation operation) {
  switch (operation) {
    case Operation::select: return 0;
    case Operation::logical_or: return 1;
    case Operation::logical_and: return 2;
    case Operation::equal:
    case Operation::not_equal: return 3;
    case Operation::less:
    case Operation::less_equal: return 4;
    case Operation::add:
    case Operation::subtract: return 5;
    case Operation::multiply:
    case Operation::divide: return 6;
    case Operation::negate:
    case Operation::logical_not: return 7;
    default: return 10;
  }
}

std::string in_parentheses(const Text& text, int least) {
  return text.precedence < least ? "(" + text.text + ")" : text.text;
}

/// Writes a function of operands that are written already.
Text function_text(const Node& node, const std::vector<Text>& x) {
  const int own = precedence_of(node.operation);
  const std::string name(enum_name(node.operation));
  switch (node.operation) {
    case Operation::constant: {
      if (node.type == Type::boolean) return {node.value != 0 ? "true" : "false"};
      if (node.type == Type::i32) return {"i32(" + std::to_string(static_cast<long>(node.value)) + ")"};
      return {number_text(node.wide_value), std::signbit(node.wide_value) ? 7 : 10};
    }
    case Operation::row_index:
    case Operation::col_index:
    case Operation::rows:
    case Operation::cols:
    case Operation::rank: return {name};
    case Operation::negate: return {"-" + in_parentheses(x[0], own + 1), own};
    case Operation::logical_not: return {"!" + in_parentheses(x[0], own), own};
    case Operation::round_to:
      return {(node.to_problem_dtype ? "float" : std::string(enum_name(node.type))) + "(" + x[0].text + ")"};
    case Operation::uniform: return {"uniform(" + x[0].text + ", " + std::to_string(node.index) + ")"};
    case Operation::select: return {"select(" + x[0].text + ", " + x[1].text + ", " + x[2].text + ")"};
    case Operation::scatter:
    case Operation::minimum:
    case Operation::maximum: return {name + "(" + x[0].text + ", " + x[1].text + ")"};
    default: break;
  }
  if (operand_count(node.operation) == 1) return {name + "(" + x[0].text + ")"};
  return {in_parentheses(x[0], own) + " " + name + " " + in_parentheses(x[1], own + 1), own};
}

class TextWriter {
 public:
  explicit TextWriter(const Program& program)
      : program_(program), texts_(program.nodes.size()), uses_(program.nodes.size()) {}

  std::string write() {
    for (const Input& input : program_.inputs) reserve(input.name);
    for (const Number& number : program_.numbers) reserve(number.name);
    for (const Output& output : program_.outputs) reserve(output.name);
    for (const Monoid& monoid : program_.monoids) reserve(monoid.name);
    count_uses();
    for (const Input& input : program_.inputs)
      line("in " + input.name + " : " + type_name(input.type) + dimensions(input.kind));
    for (const Number& number : program_.numbers)
      line("num " + number.name + " : " + std::string(enum_name(number.type)) +
           (number.value ? " = " + number_value(number) : ""));
    for (const Monoid& monoid : program_.monoids) write_monoid(monoid);
    written_.resize(program_.reductions.size());
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) write_node(n);
    for (const Output& output : program_.outputs) write_output(output);
    return std::move(all_);
  }

 private:
  void reserve(const std::string& name) { names_.insert(name); }
  std::string unused_name(const std::string& wanted) {
    std::string name = wanted.empty() || is_reserved(wanted) ? "" : wanted;
    for (int i = 2; !name.empty() && names_.contains(name); ++i) name = wanted + "_" + std::to_string(i);
    while (name.empty() || names_.contains(name)) name = "t" + std::to_string(++temporaries_);
    names_.insert(name);
    return name;
  }

  void line(const std::string& text) {
    all_ += text + "\n";
    if (all_.size() > longest_text)
      throw Error(ErrorCode::invalid_argument, "the text of the program has more than ", longest_text, " bytes");
  }

  static std::string number_value(const Number& number) {
    return number.type == Type::i32 ? std::to_string(static_cast<long>(*number.value)) : number_text(*number.value);
  }
  static std::string type_name(const std::optional<Type>& type) { return type ? std::string(enum_name(*type)) : "float"; }
  std::string dimensions(Kind kind) const {
    if (kind == Kind::top) return "[row, " + std::to_string(program_.top) + "]";
    return kind == Kind::group ? "[row, col/" + std::to_string(program_.group) + "]" : std::string(enum_name(kind));
  }

  void count_uses() {
    const auto use = [&](int node) { ++uses_[static_cast<std::size_t>(node)]; };
    for (const Node& node : program_.nodes)
      for (const int operand : node.operands)
        if (operand >= 0) use(operand);
    for (const Reduction& reduction : program_.reductions)
      for (const int operand : reduction.operands) use(operand);
    for (const Output& output : program_.outputs) use(output.node);
  }

  const Text& text(int node) const { return texts_[static_cast<std::size_t>(node)]; }

  void write_node(std::size_t n) {
    const Node& node = program_.nodes[n];
    const auto index = static_cast<std::size_t>(node.index);
    Text& made = texts_[n];
    if (node.operation == Operation::input) {
      made = {program_.inputs[index].name};
    } else if (node.operation == Operation::number) {
      made = {program_.numbers[index].name};
    } else if (node.operation == Operation::reduced) {
      if (!written_[index]) write_reduction(index);
    } else {
      std::vector<Text> operands;
      for (const int operand : node.operands)
        if (operand >= 0) operands.push_back(text(operand));
      made = function_text(node, operands);
      const bool leaf = operand_count(node.operation) == 0;
      if (leaf || (uses_[n] == 1 && node.name.empty() && made.text.size() < longest_expression)) return;
      if (uses_[n] == 1 && is_rounding_of_output(static_cast<int>(n))) return;
      const std::string name = unused_name(node.name);
      const bool rounds = node.operation == Operation::round_to;
      const std::string type = node.to_problem_dtype ? "float" : std::string(enum_name(node.type));
      line(rounds ? name + " : " + type + " = " + operands[0].text : name + " = " + made.text);
      made = {name};
    }
  }

  /// A conversion to the type of an output, which the output's statement implies.
  bool is_rounding_of_output(int node) const {
    return std::ranges::any_of(program_.outputs, [&](const Output& o) { return o.node == node && implies(o); });
  }
  bool implies(const Output& output) const {
    const Node& node = program_.nodes[static_cast<std::size_t>(output.node)];
    if (node.operation != Operation::round_to || output.sum_over_rows) return false;
    return output.type ? !node.to_problem_dtype && node.type == *output.type : node.to_problem_dtype;
  }

  void write_reduction(std::size_t r) {
    const Reduction& reduction = program_.reductions[r];
    written_[r] = true;
    int parts = reduction.reducer == Reducer::moments ? 2 : 1;
    if (reduction.reducer == Reducer::custom)
      parts = static_cast<int>(program_.monoids[static_cast<std::size_t>(reduction.monoid)].identity.size());
    if (reduction.reducer == Reducer::topk && reduction.operands.size() > 1)
      parts = static_cast<int>(reduction.operands.size()) + 1;
    std::vector<std::string> wanted(3 + static_cast<std::size_t>(parts));
    std::vector<std::size_t> nodes(wanted.size(), program_.nodes.size());
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const Node& node = program_.nodes[n];
      if (node.operation != Operation::reduced || static_cast<std::size_t>(node.index) != r) continue;
      parts = std::max(parts, node.part + 1);
      wanted[static_cast<std::size_t>(node.part)] = node.name;
      nodes[static_cast<std::size_t>(node.part)] = n;
    }
    std::string names, operands;
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts); ++part) {
      const std::string name = unused_name(wanted[part]);
      names += (part == 0 ? "" : ", ") + name;
      if (nodes[part] < texts_.size()) texts_[nodes[part]] = {name};
    }
    for (const int operand : reduction.operands) operands += (operands.empty() ? "" : ", ") + text(operand).text;
    if (reduction.reducer == Reducer::custom)
      operands = program_.monoids[static_cast<std::size_t>(reduction.monoid)].name + "(" + operands + ")";
    line(std::string(enum_name(reduction.reducer)) +
         (reduction.grouped                    ? "[" + std::to_string(program_.group) + "]"
          : reduction.reducer == Reducer::topk ? "[" + std::to_string(program_.top) + "]"
                                               : "") +
         " " + names + " = " + operands);
  }

  void write_output(const Output& output) {
    const Node& node = program_.nodes[static_cast<std::size_t>(output.node)];
    const bool shared =
        texts_[static_cast<std::size_t>(output.node)].precedence == 10 && uses_[static_cast<std::size_t>(output.node)] > 1;
    const std::string value = implies(output) && !shared ? text(node.operands[0]).text : text(output.node).text;
    line((output.sum_over_rows ? "colsum " : "out ") + output.name + " : " + type_name(output.type) +
         dimensions(output.kind) + " = " + value);
  }

  void write_monoid(const Monoid& monoid) {
    const std::size_t width = monoid.identity.size();
    const auto list = [&](auto element) {
      std::string all;
      for (std::size_t i = 0; i < width; ++i) all += (i == 0 ? "" : ", ") + element(i);
      return width == 1 ? all : "(" + all + ")";
    };
    std::vector<Text> texts(monoid.nodes.size());
    for (std::size_t n = 0; n < texts.size(); ++n) {
      const Node& node = monoid.nodes[n];
      const auto index = static_cast<std::size_t>(node.index);
      if (node.operation == Operation::parameter) {
        texts[n] = {(index < width ? "a" : "b") + std::to_string(index % width)};
        continue;
      }
      std::vector<Text> operands;
      for (const int operand : node.operands)
        if (operand >= 0) operands.push_back(texts[static_cast<std::size_t>(operand)]);
      texts[n] = function_text(node, operands);
      if (texts[n].text.size() > longest_text)
        throw Error(ErrorCode::invalid_argument, "the text of monoid ", monoid.name, " has more than ", longest_text,
                    " bytes");
    }
    const std::string left = list([](std::size_t i) { return "a" + std::to_string(i); });
    const std::string right = list([](std::size_t i) { return "b" + std::to_string(i); });
    const std::string results = list([&](std::size_t i) { return texts[static_cast<std::size_t>(monoid.results[i])].text; });
    line("monoid " + monoid.name + "(" + left + ", " + right + ") = " + results + " identity " +
         list([&](std::size_t i) { return number_text(monoid.wide_identity[i]); }));
  }

  const Program& program_;
  std::vector<Text> texts_;
  std::vector<int> uses_;
  std::vector<bool> written_;
  std::set<std::string> names_;
  int temporaries_ = 0;
  std::string all_;
};

}  // namespace

std::string text_of(const Program& program) { return TextWriter(program).write(); }

}  // namespace tunesmith::row_program
