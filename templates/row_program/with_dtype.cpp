#include "templates/row_program/graph.h"
#include "templates/row_program/parse.h"

namespace tunesmith::row_program {

Program with_dtype(const Program& program, Type dtype) {
  Program made = program;
  for (Input& input : made.inputs) input.type = input.type.value_or(dtype);
  for (Output& output : made.outputs) output.type = output.type.value_or(dtype);
  Graph graph;
  std::vector<int> renamed(program.nodes.size(), -1), reductions(program.reductions.size(), -1);
  const auto of = [&](int node) { return node < 0 ? -1 : renamed[static_cast<std::size_t>(node)]; };
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    const int a = of(node.operands[0]);
    graph.set_place(node.place);
    int& result = renamed[n];
    switch (node.operation) {
      case Operation::constant: result = graph.constant(node.value, node.type); break;
      case Operation::round_to: result = graph.round_to(a, node.to_problem_dtype ? dtype : node.type); break;
      case Operation::uniform: result = graph.uniform(a, node.index); break;
      case Operation::reduced: {
        int& reduction = reductions[static_cast<std::size_t>(node.index)];
        if (reduction < 0) {
          const Reduction& old = program.reductions[static_cast<std::size_t>(node.index)];
          std::vector<int> operands;
          for (const int operand : old.operands) operands.push_back(of(operand));
          graph.set_place(old.place);
          reduction = graph.reduce(old.reducer, std::move(operands), old.grouped, old.monoid);
        }
        graph.set_place(node.place);
        result = graph.result(reduction, node.part);
        break;
      }
      default:
        result = node.operation < Operation::negate
                     ? graph.leaf(node.operation, node.kind, node.type, node.index, node.part)
                     : graph.apply(node.operation, a, of(node.operands[1]), of(node.operands[2]));
    }
    if (!node.name.empty()) graph.set_name(result, node.name);
  }
  for (Output& output : made.outputs) output.node = of(output.node);
  graph.finish(made);
  return made;
}

}  // namespace tunesmith::row_program
