#include "templates/row_program/language/copy_nodes.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/passes/sum_of_columns.h"

namespace tunesmith::row_program {

Program with_dtype(const Program& program, Type dtype) {
  Program made = program;
  for (Input& input : made.inputs) input.type = input.type.value_or(dtype);
  for (Output& output : made.outputs) output.type = output.type.value_or(dtype);
  const bool wide = computes_in_f64(made);
  for (Monoid& monoid : made.monoids) {
    if (wide) monoid.identity = monoid.wide_identity;
    monoid.wide_identity = monoid.identity;
    for (Node& node : monoid.nodes) (wide ? node.value : node.wide_value) = wide ? node.wide_value : node.value;
  }
  Graph graph(wide);
  const std::vector<int> copies = copy_nodes(program, dtype, graph);
  for (Output& output : made.outputs) {
    output.node = copies[static_cast<std::size_t>(output.node)];
    if (output.sum_over_rows && output.kind == Kind::scalar) output.node = terms_of_total(graph, output.node, program.group);
  }
  graph.finish(made);
  return made;
}

}  // namespace tunesmith::row_program
