#include "templates/row_program/copy_nodes.h"
#include "templates/row_program/parse.h"

namespace tunesmith::row_program {

Program with_dtype(const Program& program, Type dtype) {
  Program made = program;
  for (Input& input : made.inputs) input.type = input.type.value_or(dtype);
  for (Output& output : made.outputs) output.type = output.type.value_or(dtype);
  Graph graph;
  const std::vector<int> copies = copy_nodes(program, dtype, graph);
  for (Output& output : made.outputs) output.node = copies[static_cast<std::size_t>(output.node)];
  graph.finish(made);
  return made;
}

}  // namespace tunesmith::row_program
