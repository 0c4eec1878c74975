#include "templates/row_program/emit/device_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tunesmith::row_program {
namespace {

/// Reports whether f32 results of the operation are rounded, so that exp() of one has the error of its argument anyway.
bool rounds(Operation operation) {
  switch (operation) {
    case Operation::add:
    case Operation::subtract:
    case Operation::multiply:
    case Operation::divide: return true;
    default: return false;
  }
}

/// Reports whether the first and the last character belong together.
bool is_one_bracket(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return false;
  }
  return true;
}

std::string bits_text(double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08xu", bits);
  return text.data();
}

}  // namespace

std::string element_type(Type type) {
  switch (type) {
    case Type::f64: return "double";
    case Type::f32: return "float";
    case Type::f16: return "f16";
    case Type::bf16: return "bf16";
    case Type::e4m3: return "e4m3";
    case Type::e5m2: return "e5m2";
    case Type::i8: return "i8";
    case Type::i32: return "int";
    case Type::boolean: return "i8";  // 0 and 1
  }
  return {};
}

std::string number_type(bool wide) { return wide ? "double" : "float"; }

std::string divisor_type(double lower_bound, bool wide) {
  constexpr double min_normal = 0x1p-126, rounding = 1.001;
  if (wide) return "DoubleDivisor";
  return lower_bound >= rounding * min_normal ? "NormalDivisor" : "Divisor";
}

std::string value_type_text(Type type, bool wide) {
  return type == Type::boolean ? "bool" : type == Type::i32 ? "int" : number_type(wide);
}

namespace {

std::string double_literal(double value) {
  if (std::isnan(value)) return "double_of(0u, 0x7ff80000u)";
  if (std::isinf(value)) return value > 0 ? "double_of(0u, 0x7ff00000u)" : "double_of(0u, 0xfff00000u)";
  std::array<char, 48> text{};
  std::string literal(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
  if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
  return literal.front() == '-' ? "(" + literal + ")" : literal;
}

}  // namespace

std::string number_literal(double value, bool wide) {
  if (wide) return double_literal(value);
  const auto narrow = static_cast<float>(value);
  if (std::isnan(narrow)) return "float_of(0x7fffffffu)";
  if (std::isinf(narrow)) return narrow > 0 ? "float_of(0x7f800000u)" : "float_of(0xff800000u)";
  for (int digits = 1;; ++digits) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%.*g", digits, static_cast<double>(narrow));
    if (std::strtof(text.data(), nullptr) != narrow) continue;
    std::string literal(text.data());
    if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
    return literal.front() == '-' ? "(" + literal + "f)" : literal + "f";
  }
}

std::string constant_text(const Node& of, bool wide) {
  if (of.type == Type::boolean) return of.value != 0 ? "true" : "false";
  if (of.type == Type::i32) return std::to_string(static_cast<long long>(of.value));
  return number_literal(of.value, wide);
}

std::string as_number(const std::string& text, Type type, bool wide) {
  if (type == Type::boolean) return "(" + text + (wide ? " ? 1.0 : 0.0)" : " ? 1.0f : 0.0f)");
  if (type == Type::i32) return "static_cast<" + number_type(wide) + ">(" + text + ")";
  return text;
}

std::string as_value(const std::string& element, Type type, bool wide) {
  if (type == Type::i32) return "integer_of_number(" + element + ")";
  if (type == Type::boolean) return "(" + element + (wide ? " != 0.0)" : " != 0.0f)");
  return element;
}

std::string as_element(const std::string& text, Type type, Type stored, bool wide) {
  if (stored != Type::i32) return as_number(text, type, wide);
  return "number_with<" + number_type(wide) + ">(" + (type == Type::f32 ? "integer_of(" + text + ")" : text) + ")";
}

std::string bare(const std::string& text) {
  return text.front() == '(' && text.back() == ')' && is_one_bracket(text) ? text.substr(1, text.size() - 2) : text;
}

std::string function_text(const Node& of, const std::array<std::string, 3>& operands,
                          const std::array<const Node*, 3>& nodes, bool wide) {
  const std::array<std::string, 3>& o = operands;
  const auto call = [&](const char* name) {
    std::string text = std::string(name) + "(" + o[0];
    for (std::size_t k = 1; k < 3; ++k)
      if (!o[k].empty()) text += ", " + o[k];
    return text + ")";
  };
  const auto infix = [&](const char* sign) { return "(" + o[0] + " " + sign + " " + o[1] + ")"; };
  switch (of.operation) {
    case Operation::negate: return "(-" + o[0] + ")";
    case Operation::absolute: return call("absolute");
    case Operation::exp:
      return call(nodes[0] != nullptr && rounds(nodes[0]->operation) ? "exponential_of_rounded" : "exponential");
    case Operation::exp2: return call("exponential2");
    case Operation::log: return call("logarithm");
    case Operation::log1p: return call("logarithm_of_one_plus");
    case Operation::tanh: return call("hyperbolic_tangent");
    case Operation::erf: return call("error_function");
    case Operation::sqrt: return call("square_root");
    case Operation::rsqrt: return call("reciprocal_sqrt");
    case Operation::sigmoid: return call("sigmoid");
    case Operation::floor: return call("round_down");
    case Operation::round: return call("round_to_integer");
    case Operation::round_to:
      if (of.type == Type::i32) return "integer_of(" + o[0] + ")";
      if (of.type == Type::f32) return "static_cast<" + number_type(wide) + ">(" + o[0] + ")";
      return "rounded<" + element_type(of.type) + ">(" + o[0] + ")";
    case Operation::logical_not: return "(!" + o[0] + ")";
    case Operation::uniform: return o[0];
    case Operation::add: return infix("+");
    case Operation::subtract: return infix("-");
    case Operation::multiply: return infix("*");
    case Operation::divide: return call("divide");
    case Operation::minimum: return call("minimum_or_nan");
    case Operation::maximum: return call("maximum_or_nan");
    case Operation::less: return infix("<");
    case Operation::less_equal: return infix("<=");
    case Operation::equal: return infix("==");
    case Operation::not_equal: return infix("!=");
    case Operation::logical_and: return infix("&&");
    case Operation::logical_or: return infix("||");
    case Operation::select: return "(" + o[0] + " ? " + o[1] + " : " + o[2] + ")";
    default: return {};
  }
}

bool is_precise(const Program& program) {
  if (computes_in_f64(program)) return false;
  return std::ranges::any_of(program.outputs,
                             [](const Output& output) { return output.kind == Kind::full && output.type == Type::f32; });
}

std::string reduction_type(const Reduction& reduction, bool precise) {
  switch (reduction.reducer) {
    case Reducer::sum:
    case Reducer::mean: return reduction.of_few_columns ? "PlainSumOfColumns" : "SumOfColumns";
    case Reducer::max: return "MaximumOfColumns";
    case Reducer::min: return "MinimumOfColumns";
    case Reducer::lse: return precise ? "LogSumExp<true>" : "LogSumExp<false>";
    case Reducer::moments: return reduction.of_few_columns ? "MomentsAroundAPivot" : "MomentsOfColumns";
    case Reducer::argmax: return "ArgmaxOfColumns";
    case Reducer::argmin: return "ArgminOfColumns";
    case Reducer::any: return "AnyColumn";
    case Reducer::all: return "AllColumns";
    case Reducer::count: return "CountOfColumns";
    case Reducer::topk: return "TopColumns<columns_chosen, " + std::to_string(reduction.operands.size() - 1) + ">";
    case Reducer::custom: return "CustomReduction<" + monoid_name(reduction.monoid) + ">";
  }
  return {};
}

std::string result_function(const Reduction& reduction, int part) {
  if (reduction.reducer == Reducer::lse) return part == 0 ? "result" : part == 1 ? "maximum_of" : "sum_of";
  if (reduction.reducer == Reducer::moments) return part == 0 ? "mean" : "variance";
  return "result";
}

int floats_of(const Reduction& reduction, const Program& program) {
  switch (reduction.reducer) {
    case Reducer::sum:
    case Reducer::mean: return reduction.of_few_columns ? 1 : 2;
    case Reducer::argmax:
    case Reducer::argmin: return 2;
    case Reducer::lse: return 3;
    case Reducer::moments: return 4;
    case Reducer::topk: return program.top * static_cast<int>(reduction.operands.size() + 1);
    case Reducer::custom:
      return static_cast<int>(program.monoids[static_cast<std::size_t>(reduction.monoid)].identity.size());
    default: return 1;
  }
}

std::string monoid_name(int monoid) { return "Monoid" + std::to_string(monoid); }

std::string monoid_definition(const Monoid& monoid, int index, bool wide) {
  const std::string number = number_type(wide);
  std::string text;
  text += "// " + monoid.name + "\nstruct " + monoid_name(index) +
          " {\n  static constexpr int components = " + std::to_string(monoid.identity.size()) +
          ";\n  static __device__ __forceinline__ void identity(" + number + "* partial) {\n";
  for (std::size_t c = 0; c < monoid.identity.size(); ++c)
    text += "    partial[" + std::to_string(c) +
            "] = " + (wide ? number_literal(monoid.identity[c], wide) : "float_of(" + bits_text(monoid.identity[c]) + ")") +
            ";\n";
  text += "  }\n  static __device__ __forceinline__ void combine(" + number + "* partial, const " + number + "* other) {\n";
  const auto components = static_cast<int>(monoid.identity.size());
  std::vector<std::string> expressions;
  for (std::size_t n = 0; n < monoid.nodes.size(); ++n) {
    const Node& of = monoid.nodes[n];
    if (of.operation == Operation::parameter) {
      expressions.push_back(of.index < components ? "partial[" + std::to_string(of.index) + "]"
                                                  : "other[" + std::to_string(of.index - components) + "]");
      continue;
    }
    if (of.operation == Operation::constant) {
      expressions.push_back(constant_text(of, wide));
      continue;
    }
    std::array<std::string, 3> operands;
    std::array<const Node*, 3> nodes{};
    for (std::size_t k = 0; k < 3; ++k)
      if (of.operands[k] >= 0) {
        operands[k] = expressions[static_cast<std::size_t>(of.operands[k])];
        nodes[k] = &monoid.nodes[static_cast<std::size_t>(of.operands[k])];
      }
    const std::string name = "v" + std::to_string(n);
    text += "    const " + value_type_text(of.type, wide) + " " + name + " = " + function_text(of, operands, nodes, wide) +
            ";\n";
    expressions.push_back(name);
  }
  for (std::size_t c = 0; c < monoid.results.size(); ++c)
    text += "    const " + number + " result" + std::to_string(c) + " = " +
            expressions[static_cast<std::size_t>(monoid.results[c])] + ";\n";
  for (std::size_t c = 0; c < monoid.results.size(); ++c)
    text += "    partial[" + std::to_string(c) + "] = result" + std::to_string(c) + ";\n";
  text += "  }\n};\n\n";
  return text;
}

}  // namespace tunesmith::row_program
