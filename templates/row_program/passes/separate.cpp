#include "templates/row_program/passes/separate.h"

#include <algorithm>

#include "templates/row_program/language/graph.h"

namespace tunesmith::row_program {
namespace {

/// Rebuilds a program node by node.
class Separation {
 public:
  Separation(const Program& program, OnChip kernel)
      : program_(program),
        kernel_(kernel),
        graph_(computes_in_f64(program)),
        renamed_(program.nodes.size(), -1),
        reductions_(program.reductions.size(), -1) {}

  Program result() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const Node& node = program_.nodes[n];
      graph_.set_place(node.place);
      renamed_[n] = rebuilt(node);
      if (!node.name.empty()) graph_.set_name(renamed_[n], node.name);
    }
    Program made = program_;
    for (Output& output : made.outputs) output.node = of(output.node);
    graph_.finish(made);
    for (Reduction& reduction : made.reductions) {
      const bool over_row = !reduction.grouped && !reduction.of_top;
      reduction.of_few_columns = reduction.reducer == Reducer::moments ? over_row : kernel_.plain_sums;
    }
    return made;
  }

 private:
  int of(int node) const { return node < 0 ? -1 : renamed_[static_cast<std::size_t>(node)]; }

  int rebuilt(const Node& node) {
    const int a = of(node.operands[0]);
    switch (node.operation) {
      case Operation::constant: return graph_.constant(node.value, node.type);
      case Operation::round_to: return graph_.round_to(a, node.type);
      case Operation::uniform: return graph_.uniform(a, node.index);
      case Operation::reduced: return reduced(node);
      default:
        return node.operation < Operation::negate
                   ? graph_.leaf(node.operation, node.kind, node.type, node.index, node.part)
                   : graph_.apply(node.operation, a, of(node.operands[1]), of(node.operands[2]));
    }
  }

  int reduced(const Node& node) {
    const Reduction& reduction = program_.reductions[static_cast<std::size_t>(node.index)];
    const bool over_row = !reduction.grouped && !reduction.of_top;
    if (over_row && reduction.reducer == Reducer::lse) return lse(of(reduction.operands[0]), node.part);
    if (over_row && reduction.reducer == Reducer::moments && !(kernel_.moments_at_once && has_variance(node.index)))
      return moments(of(reduction.operands[0]), node.part);
    int& made = reductions_[static_cast<std::size_t>(node.index)];
    if (made < 0) {
      std::vector<int> operands;
      for (const int operand : reduction.operands) operands.push_back(of(operand));
      made = graph_.reduce(reduction.reducer, std::move(operands), reduction.grouped, reduction.monoid);
    }
    return graph_.result(made, node.part);
  }

  // Equal reductions are one, because the graph shares equal values.
  int reduce(Reducer reducer, int value) { return graph_.result(graph_.reduce(reducer, {value}, false)); }

  int lse(int value, int part) {
    const int maximum = reduce(Reducer::max, value);
    if (part == 1) return maximum;
    const int sum = reduce(Reducer::sum, graph_.apply(Operation::exp, graph_.apply(Operation::subtract, value, maximum)));
    if (part == 2) return sum;
    const int distance = graph_.apply(Operation::subtract, maximum, maximum);  // NaN unless the maximum is finite
    const int finite = graph_.apply(Operation::equal, distance, graph_.constant(0));
    const int result = graph_.apply(Operation::add, maximum, graph_.apply(Operation::log, sum));
    return graph_.apply(Operation::select, finite, result, maximum);
  }

  int moments(int value, int part) {
    const int mean = reduce(Reducer::mean, value);
    if (part == 0) return mean;
    const int deviation = graph_.apply(Operation::subtract, value, mean);
    return reduce(Reducer::mean, graph_.apply(Operation::multiply, deviation, deviation));
  }

  bool has_variance(int moments) const {
    return std::ranges::any_of(program_.nodes, [&](const Node& node) {
      return node.operation == Operation::reduced && node.index == moments && node.part == 1;
    });
  }

  const Program& program_;
  OnChip kernel_;
  Graph graph_;
  std::vector<int> renamed_, reductions_;
};

}  // namespace

Program with_separate_stages(const Program& program, OnChip kernel) { return Separation(program, kernel).result(); }

}  // namespace tunesmith::row_program
