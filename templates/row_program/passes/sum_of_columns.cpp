#include "templates/row_program/passes/sum_of_columns.h"

#include <map>

namespace tunesmith::row_program {
namespace {

/// A product of two values; -1 is 1.
struct Product {
  int fixed = -1;  ///< does not vary within a sum
  int varying = -1;
};

int multiply(Graph& graph, int a, int b) {
  if (a < 0) return b;
  return b < 0 ? a : graph.apply(Operation::multiply, a, b);
}

int divide(Graph& graph, int a, int b) {
  if (b < 0) return a;
  return graph.apply(Operation::divide, a < 0 ? graph.constant(1) : a, b);
}

bool varies(Kind kind, bool grouped) {
  return grouped ? varies_along_columns(kind) && kind != Kind::group : varies_along_columns(kind);
}

Product split(Graph& graph, int value, bool grouped) {
  const Node node = graph[value];
  if (!varies(node.kind, grouped)) return {value, -1};
  if (node.operation == Operation::multiply || node.operation == Operation::divide) {
    const Product a = split(graph, node.operands[0], grouped), b = split(graph, node.operands[1], grouped);
    if (a.fixed < 0 && b.fixed < 0) return {-1, value};
    if (node.operation == Operation::multiply)
      return {multiply(graph, a.fixed, b.fixed), multiply(graph, a.varying, b.varying)};
    return {divide(graph, a.fixed, b.fixed), b.varying < 0 ? a.varying : divide(graph, a.varying, b.varying)};
  }
  if (node.operation == Operation::negate) {
    const Product a = split(graph, node.operands[0], grouped);
    return {a.fixed < 0 ? graph.constant(-1) : graph.apply(Operation::negate, a.fixed), a.varying};
  }
  return {-1, value};
}

int add(Graph& graph, int a, int b) { return a < 0 ? b : graph.apply(Operation::add, a, b); }

/// Returns the value at the first column of each group, and 0 at the others.
int at_first_of_group(Graph& graph, int value, int group) {
  const int column = graph.to_f32(graph.leaf(Operation::col_index, Kind::col, Type::i32));
  const int size = graph.constant(group);
  const int number = graph.apply(Operation::floor, graph.apply(Operation::divide, column, size));
  const int is_first = graph.apply(Operation::equal, graph.apply(Operation::multiply, number, size), column);
  return graph.apply(Operation::select, is_first, value, graph.constant(0));
}

}  // namespace

int count_of_columns(Graph& graph, bool grouped) {
  if (!grouped) return graph.to_f32(graph.leaf(Operation::cols, Kind::scalar, Type::i32));
  const int column = graph.leaf(Operation::col_index, Kind::col, Type::i32);
  const int one = graph.apply(Operation::select, graph.apply(Operation::less_equal, graph.constant(0), column),
                              graph.constant(1), graph.constant(0));
  return graph.result(graph.reduce(Reducer::sum, {one}, true));
}

int sum_of_columns(Graph& graph, const std::vector<int>& values, bool grouped) {
  std::map<int, int> terms;  // by fixed factor; those without one are added before the sum
  int result = -1;
  for (const int value : values) {
    const Product product = split(graph, value, grouped);
    if (product.varying < 0) {
      result = add(graph, result, multiply(graph, product.fixed, count_of_columns(graph, grouped)));
    } else {
      const auto [found, is_new] = terms.try_emplace(product.fixed, product.varying);
      if (!is_new) found->second = add(graph, found->second, product.varying);
    }
  }
  for (const auto& [fixed, varying] : terms) {
    const int sum = graph.result(graph.reduce(Reducer::sum, {varying}, grouped));
    result = add(graph, result, multiply(graph, fixed, sum));
  }
  return result;
}

int sum_of_groups(Graph& graph, int value, int group) {
  return graph.result(graph.reduce(Reducer::sum, {at_first_of_group(graph, value, group)}, false));
}

int terms_of_total(Graph& graph, int value, int group) {
  switch (graph[value].kind) {
    case Kind::full:
    case Kind::col: return value;
    case Kind::group: return at_first_of_group(graph, value, group);
    case Kind::top: value = graph.result(graph.reduce(Reducer::sum, {value}, false)); break;
    case Kind::row:
    case Kind::scalar: break;
  }
  const int column = graph.leaf(Operation::col_index, Kind::col, Type::i32);
  const int is_first = graph.apply(Operation::equal, column, graph.constant(0));
  return graph.apply(Operation::select, is_first, value, graph.constant(0));
}

}  // namespace tunesmith::row_program
