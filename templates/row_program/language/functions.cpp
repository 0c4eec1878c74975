#include "templates/row_program/language/functions.h"

#include <algorithm>
#include <array>

namespace tunesmith::row_program {
namespace {

using Arguments = std::span<const int>;

template <Operation operation>
int unary(Graph& graph, Arguments x) {
  return graph.apply(operation, x[0]);
}
template <Operation operation>
int binary(Graph& graph, Arguments x) {
  return graph.apply(operation, x[0], x[1]);
}

int silu(Graph& g, Arguments x) { return g.apply(Operation::multiply, x[0], g.apply(Operation::sigmoid, x[0])); }

int relu(Graph& g, Arguments x) { return g.apply(Operation::maximum, x[0], g.constant(0)); }

/// x (1 + erf(x / sqrt(2))) / 2
int gelu(Graph& g, Arguments x) {
  const int scaled = g.apply(Operation::multiply, x[0], g.constant(0.70710678118654752));
  const int sum = g.apply(Operation::add, g.constant(1), g.apply(Operation::erf, scaled));
  return g.apply(Operation::multiply, g.apply(Operation::multiply, g.constant(0.5), x[0]), sum);
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
int gelu_tanh(Graph& g, Arguments x) {
  const int square = g.apply(Operation::multiply, x[0], x[0]);
  const int cubic = g.apply(Operation::multiply, g.apply(Operation::multiply, g.constant(0.044715), square), x[0]);
  const int inner = g.apply(Operation::multiply, g.constant(0.79788456080286536), g.apply(Operation::add, x[0], cubic));
  const int sum = g.apply(Operation::add, g.constant(1), g.apply(Operation::tanh, inner));
  return g.apply(Operation::multiply, g.apply(Operation::multiply, g.constant(0.5), x[0]), sum);
}

int clamp(Graph& g, Arguments x) { return g.apply(Operation::minimum, g.apply(Operation::maximum, x[0], x[1]), x[2]); }

constexpr std::array<Function, 20> built_in_functions{{
    {"abs", 1, unary<Operation::absolute>},
    {"exp", 1, unary<Operation::exp>},
    {"exp2", 1, unary<Operation::exp2>},
    {"log", 1, unary<Operation::log>},
    {"log1p", 1, unary<Operation::log1p>},
    {"tanh", 1, unary<Operation::tanh>},
    {"erf", 1, unary<Operation::erf>},
    {"sqrt", 1, unary<Operation::sqrt>},
    {"rsqrt", 1, unary<Operation::rsqrt>},
    {"sigmoid", 1, unary<Operation::sigmoid>},
    {"floor", 1, unary<Operation::floor>},
    {"round", 1, unary<Operation::round>},
    {"silu", 1, silu},
    {"relu", 1, relu},
    {"gelu", 1, gelu},
    {"gelu_tanh", 1, gelu_tanh},
    {"min", 2, binary<Operation::minimum>},
    {"max", 2, binary<Operation::maximum>},
    {"clamp", 3, clamp},
    {"square", 1, [](Graph& g, Arguments x) { return g.apply(Operation::multiply, x[0], x[0]); }},
}};

}  // namespace

std::span<const Function> functions() { return built_in_functions; }

const Function* find_function(std::string_view name) {
  const auto found = std::ranges::find(built_in_functions, name, &Function::name);
  return found == built_in_functions.end() ? nullptr : &*found;
}

}  // namespace tunesmith::row_program
