#include "templates/row_program/evaluate/lower_bound.h"

#include <algorithm>
#include <limits>

namespace tunesmith::row_program {
namespace {

constexpr double unknown = -std::numeric_limits<double>::infinity();

/// Finds the bounds in the order of the nodes, which comes after the order of their operands.
class Bounds {
 public:
  explicit Bounds(const Program& program) : program_(program) {
    for (const Node& node : program.nodes) bounds_.push_back(of(node));
  }
  std::vector<double> take() && { return std::move(bounds_); }

 private:
  double at(int index) const {
    const auto i = static_cast<std::size_t>(index);
    return index >= 0 && i < bounds_.size() ? bounds_[i] : unknown;
  }

  const Node& node(int index) const { return program_.nodes[static_cast<std::size_t>(index)]; }

  /// Returns whether the terms of a sum are exp(x - m), where m is the maximum of the x of the same columns.
  bool includes_exponential_of_zero(const Reduction& sum) const {
    const Node& exponential = node(sum.operands[0]);
    if (exponential.operation != Operation::exp) return false;
    const Node& difference = node(exponential.operands[0]);
    if (difference.operation != Operation::subtract) return false;
    const Node& subtracted = node(difference.operands[1]);
    if (subtracted.operation != Operation::reduced) return false;
    const Reduction& maximum = program_.reductions[static_cast<std::size_t>(subtracted.index)];
    return maximum.reducer == Reducer::max && maximum.operands[0] == difference.operands[0] &&
           maximum.grouped == sum.grouped && maximum.of_top == sum.of_top;
  }

  double of_reduction(const Node& node) const {
    const Reduction& reduction = program_.reductions[static_cast<std::size_t>(node.index)];
    constexpr int variance = 1, sum_of_exponentials = 2;
    switch (reduction.reducer) {
      case Reducer::lse: return node.part == sum_of_exponentials ? 1 : unknown;  // the maximum contributes exp(0)
      case Reducer::moments: return node.part == variance ? 0 : unknown;
      case Reducer::sum:
        if (includes_exponential_of_zero(reduction)) return 1;
        [[fallthrough]];
      case Reducer::mean:
      case Reducer::max:
      case Reducer::min: return at(reduction.operands[0]) >= 0 ? 0 : unknown;
      default: return unknown;
    }
  }

  double of(const Node& node) const {
    const double a = at(node.operands[0]), b = at(node.operands[1]), c = at(node.operands[2]);
    switch (node.operation) {
      case Operation::constant: return node.value;
      case Operation::reduced: return of_reduction(node);
      case Operation::row_index:
      case Operation::col_index:
      case Operation::rows:
      case Operation::cols:
      case Operation::rank:
      case Operation::uniform:
      case Operation::absolute:
      case Operation::exp:
      case Operation::exp2:
      case Operation::sqrt:
      case Operation::rsqrt:
      case Operation::sigmoid: return 0;
      case Operation::maximum: return std::max(a, b);
      case Operation::minimum: return std::min(a, b);
      case Operation::add: return a >= 0 && b >= 0 ? std::max(a, b) : unknown;
      case Operation::multiply:
        if (node.operands[0] == node.operands[1]) return 0;
        return a >= 0 && b >= 0 ? a * b : unknown;
      case Operation::divide: return of_quotient(node, a, b);
      case Operation::round_to: return a >= 0 ? 0 : unknown;
      case Operation::scatter: return b >= 0 ? 0 : unknown;  // sums of operand 1
      case Operation::select: return std::min(b, c);
      default: return unknown;
    }
  }

  double of_quotient(const Node& node, double a, double b) const {
    if (!(a >= 0 && b >= 0)) return unknown;
    const Node& divisor = this->node(node.operands[1]);
    return divisor.operation == Operation::constant && divisor.value > 0 ? a / divisor.value : 0;
  }

  const Program& program_;
  std::vector<double> bounds_;
};

}  // namespace

std::vector<double> lower_bounds(const Program& program) { return Bounds(program).take(); }

}  // namespace tunesmith::row_program
