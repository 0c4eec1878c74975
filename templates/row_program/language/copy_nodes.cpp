#include "templates/row_program/language/copy_nodes.h"

#include <utility>

namespace tunesmith::row_program {

int copy_node(const Node& node, const std::array<int, 3>& operands, int reduction, std::optional<Type> dtype, Graph& graph) {
  graph.set_place(node.place);
  switch (node.operation) {
    case Operation::constant:
      if (!dtype) return graph.constant(node.value, node.wide_value, node.type);
      return graph.constant(graph.is_wide() ? node.wide_value : node.value, node.type);
    case Operation::round_to:
      if (node.to_problem_dtype && !dtype) return graph.round_to_problem_dtype(operands[0]);
      return graph.round_to(operands[0], node.to_problem_dtype ? *dtype : node.type);
    case Operation::uniform: return graph.uniform(operands[0], node.index);
    case Operation::reduced: return graph.result(reduction, node.part);
    default: break;
  }
  if (node.operation < Operation::negate) return graph.leaf(node.operation, node.kind, node.type, node.index, node.part);
  return graph.apply(node.operation, operands[0], operands[1], operands[2]);
}

std::vector<int> copy_nodes(const Program& program, std::optional<Type> dtype, Graph& graph) {
  std::vector<int> copies(program.nodes.size(), -1), reductions(program.reductions.size(), -1);
  const auto copy_of = [&](int node) { return node < 0 ? -1 : copies[static_cast<std::size_t>(node)]; };
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    int reduction = -1;
    if (node.operation == Operation::reduced) {
      int& copied = reductions[static_cast<std::size_t>(node.index)];
      if (copied < 0) {
        const Reduction& old = program.reductions[static_cast<std::size_t>(node.index)];
        std::vector<int> operands;
        for (const int operand : old.operands) operands.push_back(copy_of(operand));
        graph.set_place(old.place);
        copied = graph.reduce(old.reducer, std::move(operands), old.grouped, old.monoid);
      }
      reduction = copied;
    }
    copies[n] = copy_node(node, {copy_of(node.operands[0]), copy_of(node.operands[1]), copy_of(node.operands[2])}, reduction,
                          dtype, graph);
    if (!node.name.empty()) graph.set_name(copies[n], node.name);
  }
  return copies;
}

}  // namespace tunesmith::row_program
