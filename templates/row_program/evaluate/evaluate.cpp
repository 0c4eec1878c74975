#include "templates/row_program/evaluate/evaluate.h"

#include <algorithm>
#include <utility>

#include "templates/row_program/evaluate/evaluate_row.h"
#include "templates/row_program/evaluate/lower_bound.h"
#include "templates/row_program/evaluate/rounding.h"

namespace tunesmith::row_program {
namespace {}  // namespace

template <typename Real>
EvaluatorOf<Real>::EvaluatorOf(Program program, std::int64_t rows, std::int64_t cols, std::vector<double> numbers)
    : program_(std::move(program)), rows_(rows), cols_(cols), numbers_(std::move(numbers)) {
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const Type type = program_.numbers[i].type;
    numbers_[i] = round_to_type(type == Type::f32 ? Arithmetic<Real>::type : type, numbers_[i]);
  }
  lower_bounds_ = lower_bounds(program_);
  find_needed();
}

template <typename Real>
bool EvaluatorOf<Real>::mixes_groups(int reduction) const {
  const int stage = program_.reductions[index(reduction)].stage;
  return std::ranges::any_of(program_.reductions, [&](const Reduction& r) { return !r.grouped && r.stage > stage; });
}

template <typename Real>
int EvaluatorOf<Real>::value_of(const Output& output) const {
  if (output.sum_over_rows) return output.node;  // the sum is rounded, and not its terms
  const Node& node = program_.nodes[index(output.node)];
  const bool rounds = node.operation == Operation::round_to && node.type == output.type && node.type != Type::f32;
  // A value that is rounded from i32 is an integer.
  return rounds && program_.nodes[index(node.operands[0])].type != Type::i32 ? node.operands[0] : output.node;
}

template <typename Real>
void EvaluatorOf<Real>::find_needed() {
  needed_.assign(index(program_.stages) + 1, std::vector<bool>(program_.nodes.size()));
  for (const Reduction& reduction : program_.reductions)
    for (const int operand : reduction.of_top ? std::vector<int>() : reduction.operands)
      needed_[index(reduction.stage) - 1][index(operand)] = true;
  for (const Output& output : program_.outputs) needed_.back()[index(value_of(output))] = true;
  for (std::vector<bool>& needed : needed_)
    for (std::size_t n = program_.nodes.size(); n-- > 0;)
      if (needed[n])
        for (const int operand : program_.nodes[n].operands)
          if (operand >= 0) needed[index(operand)] = true;
}

template <typename Real>
std::vector<OutputRowOf<Real>> EvaluatorOf<Real>::row(std::int64_t row,
                                                      std::span<const std::span<const double>> inputs) const {
  Choices choices;
  std::vector<OutputRowOf<Real>> outputs = evaluate_row(*this, row, inputs, choices);
  constexpr int max_combinations = 64;
  for (int combination = 1; choices.next(); ++combination) {
    const std::vector<OutputRowOf<Real>> others = evaluate_row(*this, row, inputs, choices);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (others[o].candidates != outputs[o].candidates || others[o].candidates_of_ranks != outputs[o].candidates_of_ranks ||
          combination == max_combinations) {
        outputs[o].candidates.clear();
        outputs[o].candidates_of_ranks.clear();
        for (BoundedOf<Real>& element : outputs[o].elements) element.bound = anything;
      }
      outputs[o].if_overflowed.push_back(others[o].elements);
    }
    if (combination == max_combinations) break;
  }
  return outputs;
}

template <typename Real>
bool OutputRowOf<Real>::accepts(Type type, std::size_t element, double result) const {
  if (!candidates_of_ranks.empty())
    return std::ranges::binary_search(candidates_of_ranks[element], static_cast<std::int64_t>(result));
  if (!candidates.empty()) return std::ranges::binary_search(candidates, static_cast<std::int64_t>(result));
  return row_program::accepts(type, result, elements[element]) ||
         std::ranges::any_of(if_overflowed,
                             [&](const auto& others) { return row_program::accepts(type, result, others[element]); });
}

template struct OutputRowOf<double>;
template struct OutputRowOf<long double>;
template class EvaluatorOf<double>;
template class EvaluatorOf<long double>;

}  // namespace tunesmith::row_program
