#include "templates/row_program/passes/keep.h"

#include <algorithm>

#include "templates/row_program/emit/device_text.h"
#include "templates/row_program/emit/value_texts.h"

namespace tunesmith::row_program {
namespace {

const Node& node_of(const Program& program, int index) { return program.nodes[static_cast<std::size_t>(index)]; }

void add_needs(const Program& program, int index, const std::set<int>& kept, std::set<int>& seen, Needs& needs) {
  const Node& of = node_of(program, index);
  if (is_rowwise(of.kind) || kept.contains(index) || !seen.insert(index).second) return;
  if (of.kind == Kind::group) {
    needs.groups = std::max(needs.groups, of.stage);
    return;
  }
  if (of.operation == Operation::input) {
    const auto at = static_cast<std::size_t>(of.index);
    const unsigned bit = 1U << static_cast<unsigned>(position(program.inputs, at));
    (program.inputs[at].kind == Kind::full ? needs.inputs : needs.columns) |= bit;
    return;
  }
  if (is_leaf(of.operation)) return;
  for (const int operand : of.operands)
    if (operand >= 0) add_needs(program, operand, kept, seen, needs);
}

std::vector<int> operands_of_stage(const Program& program, int stage, bool grouped) {
  std::vector<int> operands;
  for (const Reduction& reduction : program.reductions)
    if (reduction.stage == stage && reduction.grouped == grouped && reduction.is_exchanged())
      operands.insert(operands.end(), reduction.operands.begin(), reduction.operands.end());
  return operands;
}

/// Instructions of a value of a column, roughly.
int cost_of(const Program& program, int index, std::set<int>& seen) {
  const Node& of = node_of(program, index);
  if (of.kind != Kind::full || is_leaf(of.operation) || !seen.insert(index).second) return 0;
  const bool is_function = of.operation >= Operation::exp && of.operation <= Operation::sigmoid;
  int cost = is_function || of.operation == Operation::uniform ? 8 : 1;
  for (const int operand : of.operands) {
    if (operand < 0) continue;
    cost += node_of(program, operand).kind == Kind::col ? 2 : cost_of(program, operand, seen);
  }
  return cost;
}

void add_computed(const Program& program, int index, std::set<int>& computed) {
  const Node& of = node_of(program, index);
  if (of.kind != Kind::full || is_leaf(of.operation) || !computed.insert(index).second) return;
  for (const int operand : of.operands)
    if (operand >= 0) add_computed(program, operand, computed);
}

}  // namespace

Needs needs_of(const Program& program, const std::vector<int>& nodes, const std::set<int>& kept) {
  Needs needs;
  std::set<int> seen;
  for (const int index : nodes) add_needs(program, index, kept, seen, needs);
  for (int stage = needs.groups; stage > 0; --stage)
    for (const int operand : operands_of_stage(program, stage, true)) add_needs(program, operand, kept, seen, needs);
  return needs;
}

Needs needs_of_pass(const Program& program, int pass, const std::set<int>& kept) {
  if (pass <= program.stages) return needs_of(program, operands_of_stage(program, pass, false), kept);
  std::vector<int> nodes;
  for (const Output& output : program.outputs)
    if (!is_rowwise(output.kind) || output.sum_over_rows) nodes.push_back(output.node);
  return needs_of(program, nodes, kept);
}

std::vector<int> kept_nodes(const Program& program) {
  const auto inputs = static_cast<std::size_t>(std::ranges::count(program.inputs, Kind::full, &Input::kind));
  const Needs needs = needs_of_pass(program, program.stages + 1);
  if (program.stages == 0 || inputs == 0 || needs.inputs == 0 || needs.groups > 0) return {};
  struct Candidate {
    int node, cost;
  };
  std::set<int> computed;
  for (const int operand : operands_of_stage(program, program.stages, false)) add_computed(program, operand, computed);
  std::vector<Candidate> candidates;
  for (const int index : computed) {
    std::set<int> seen;
    if (node_of(program, index).type == Type::f32 && node_of(program, index).stage < program.stages)
      candidates.push_back({index, cost_of(program, index, seen)});
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::cost);
  constexpr std::size_t max_candidates = 32;
  candidates.resize(std::min(candidates.size(), max_candidates));
  constexpr int min_cost = 3;
  for (const Candidate& first : candidates) {
    if (first.cost < min_cost) break;
    if (needs_of_pass(program, program.stages + 1, {first.node}).inputs == 0) return {first.node};
    if (inputs < 2) continue;
    for (const Candidate& second : candidates)
      if (second.node != first.node && needs_of_pass(program, program.stages + 1, {first.node, second.node}).inputs == 0)
        return {first.node, second.node};
  }
  return {};
}

}  // namespace tunesmith::row_program
