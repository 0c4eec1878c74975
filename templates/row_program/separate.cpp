#include "templates/row_program/separate.h"

#include "templates/row_program/graph.h"

namespace tunesmith::row_program {
namespace {

/// Rebuilds a program node by node.
class Separation {
 public:
  explicit Separation(const Program& program)
      : program_(program),
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
    if (over_row && reduction.reducer == Reducer::moments) return moments(of(reduction.operands[0]), node.part);
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

  const Program& program_;
  Graph graph_;
  std::vector<int> renamed_, reductions_;
};

}  // namespace

Program with_separate_stages(const Program& program) { return Separation(program).result(); }

}  // namespace tunesmith::row_program
