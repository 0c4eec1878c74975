#include "templates/row_program/cost_class.h"

#include <bit>
#include <map>

#include "templates/row_program/emit.h"
#include "templates/row_program/separate.h"

namespace tunesmith::row_program {
namespace {

/// "bf16[row, col]" -> how many arrays.
template <typename Array>
std::string counted(const std::vector<Array>& arrays) {
  std::map<std::string, int> counts;
  for (const Array& array : arrays) ++counts[std::string(enum_name(*array.type)) + std::string(enum_name(array.kind))];
  std::string text;
  for (const auto& [kind, count] : counts) text += (text.empty() ? "" : "+") + std::to_string(count) + "x" + kind;
  return text;
}

bool is_special(Operation operation) {
  return (operation >= Operation::exp && operation <= Operation::sigmoid) || operation == Operation::uniform;
}

std::string power_of_two(unsigned count) { return std::to_string(std::bit_ceil(count)); }

}  // namespace

std::string cost_class(const Program& program) {
  const Program separate = with_separate_stages(program);
  std::string text = "reads=" + counted(program.inputs) + ",writes=" + counted(program.outputs);
  for (int stage = 1; stage <= separate.stages; ++stage)
    text += (stage == 1 ? ",exchanged=" : "+") + std::to_string(exchanged_floats(separate, stage));
  if (program.group > 0) text += ",group=" + std::to_string(program.group);
  if (column_sums(program) > 0) text += ",sums=" + std::to_string(column_sums(program));
  unsigned operations = 0, special = 0;
  for (const Node& node : separate.nodes) {
    if (node.kind != Kind::full || node.operation <= Operation::parameter) continue;
    ++operations;
    if (is_special(node.operation)) ++special;
  }
  return text + ",operations=" + power_of_two(operations) + ",special=" + power_of_two(special);
}

}  // namespace tunesmith::row_program
