#include "templates/row_program/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "templates/row_program/accumulate.h"
#include "templates/row_program/operations.h"
#include "templates/row_program/random.h"
#include "templates/row_program/rounding.h"
#include "templates/row_program/top_of_terms.h"

namespace tunesmith::row_program {
namespace {

constexpr std::int64_t chunk = 1024;  // columns; groups divide it

bool along_columns(Kind kind) noexcept { return kind == Kind::col || kind == Kind::full; }
/// Reports whether the evaluation of a row gives an element of the output for each column.
bool along_columns(const Output& output) noexcept { return along_columns(output.kind) || output.sum_over_rows; }

std::size_t index(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

/// Which outcome each reduction of a row has that may have several, as an odometer over all combinations.
class Choices {
 public:
  /// Returns the outcome of a reduction, by its index.
  std::size_t of(int reduction, std::size_t outcomes) {
    for (const Choice& choice : made_)
      if (choice.reduction == reduction) return choice.index;
    made_.push_back({reduction, used_ < indices_.size() ? indices_[used_] : 0, outcomes});
    ++used_;
    return made_.back().index;
  }
  /// Goes on to the next combination; false after the last one.
  bool next() {
    indices_.clear();
    for (const Choice& choice : made_) indices_.push_back(choice.index);
    while (!indices_.empty() && indices_.back() + 1 >= made_[indices_.size() - 1].outcomes) indices_.pop_back();
    made_.clear();
    used_ = 0;
    if (indices_.empty()) return false;
    ++indices_.back();
    return true;
  }

 private:
  struct Choice {
    int reduction;
    std::size_t index, outcomes;
  };
  std::vector<std::size_t> indices_;
  std::vector<Choice> made_;
  std::size_t used_ = 0;
};

/// One row in evaluation. Values without columns and those of groups stay; those of columns are recomputed in each pass,
/// which visits the columns in chunks.
template <typename Real>
class Row {
 public:
  Row(const EvaluatorOf<Real>& evaluator, std::int64_t row, std::span<const std::span<const double>> inputs,
      Choices& choices)
      : evaluator_(evaluator),
        program_(evaluator.program()),
        row_(row),
        inputs_(inputs),
        choices_(choices),
        groups_(program_.group == 0 ? 0 : (evaluator.cols() + program_.group - 1) / program_.group),
        values_(program_.nodes.size()),
        results_(program_.reductions.size()),
        tops_(program_.reductions.size(), TopOfTerms<Real>(program_.top, 0)) {}

  std::vector<OutputRowOf<Real>> evaluate() {
    std::vector<OutputRowOf<Real>> outputs(program_.outputs.size());
    for (int pass = 0; pass <= program_.stages; ++pass) {
      for (std::size_t n = 0; n < program_.nodes.size(); ++n)
        if (!along_columns(program_.nodes[n].kind) && program_.nodes[n].stage == pass) whole(n);
      start_reductions(pass + 1);
      for (std::int64_t begin = 0; begin < evaluator_.cols(); begin += chunk) {
        const std::int64_t end = std::min(begin + chunk, evaluator_.cols());
        for (std::size_t n = 0; n < program_.nodes.size(); ++n)
          if (along_columns(program_.nodes[n].kind) && evaluator_.is_needed(static_cast<int>(n), pass))
            columns(n, begin, end);
        reduce(pass + 1, begin, end);
        if (pass == program_.stages) store_columns(outputs, begin, end);
      }
    }
    store_whole(outputs);
    return outputs;
  }

 private:
  /// Returns a value at a column.
  BoundedOf<Real> at(int node, std::int64_t column, std::int64_t begin) const {
    if (node < 0) return {};
    const auto& values = values_[index(node)];
    switch (program_.nodes[index(node)].kind) {
      case Kind::scalar:
      case Kind::row: return values[0];
      case Kind::top: return values[index(column)];
      case Kind::group: return values[index(column / program_.group)];
      default: return values[index(column - begin)];
    }
  }

  /// Values of one kind with `count` elements, the first of which is at `begin` with a distance of `step` columns.
  void fill(std::size_t n, std::int64_t begin, std::int64_t count, std::int64_t step) {
    const Node& node = program_.nodes[n];
    std::vector<BoundedOf<Real>>& values = values_[n];
    values.resize(index(count));
    const bool nonnegative = node.operands[0] >= 0 && evaluator_.is_nonnegative(node.operands[0]);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = begin + i * step;
      BoundedOf<Real>& value = values[index(i)];
      switch (node.operation) {
        case Operation::constant: value = {Real{node.value}, 0}; break;
        case Operation::input: value = {inputs_[index(node.index)][index(step == 1 ? column : i)], 0}; break;
        case Operation::number: value = {evaluator_.numbers()[index(node.index)], 0}; break;
        case Operation::row_index: value = {static_cast<double>(row_), 0}; break;
        case Operation::col_index: value = {static_cast<double>(column), 0}; break;
        case Operation::rows: value = {static_cast<double>(evaluator_.rows()), 0}; break;
        case Operation::cols: value = {static_cast<double>(evaluator_.cols()), 0}; break;
        case Operation::rank: value = {static_cast<double>(i), 0}; break;
        case Operation::scatter: value = scatter(node, column); break;
        case Operation::reduced: value = result(node, i); break;
        case Operation::round_to: value = round_to_type(node.type, at(node.operands[0], column, begin)); break;
        case Operation::uniform: {
          const Real seed = at(node.operands[0], column, begin).value;
          value = {uniform(static_cast<std::int32_t>(seed), row_, column, node.index), 0};
          break;
        }
        default:
          value = apply(node.operation, at(node.operands[0], column, begin), at(node.operands[1], column, begin),
                        at(node.operands[2], column, begin), nonnegative);
          if (may_be_fused(node, column, begin)) value.bound = anything;
      }
    }
  }

  /// Returns whether a node is the sum of a product that overflows and a number that is not far smaller. A kernel may fuse
  /// them, and then adds the product before it overflows.
  bool may_be_fused(const Node& node, std::int64_t column, std::int64_t begin) const {
    if (node.operation != Operation::add && node.operation != Operation::subtract) return false;
    const Real sign = node.operation == Operation::add ? 1 : -1;
    const auto with = [&](int n, Real other) {
      const Node& product = program_.nodes[index(n)];
      if (product.operation != Operation::multiply || !std::isinf(at(n, column, begin).value)) return false;
      const Real exact = at(product.operands[0], column, begin).value * at(product.operands[1], column, begin).value;
      const Real fused = exact + other;
      return std::isfinite(exact) &&
             !(std::fabs(fused) > Arithmetic<Real>::most && std::signbit(fused) == std::signbit(exact));
    };
    const auto [a, b, unused] = node.operands;
    return with(a, sign * at(b, column, begin).value) || with(b, sign * at(a, column, begin).value);
  }

  void columns(std::size_t n, std::int64_t begin, std::int64_t end) { fill(n, begin, end - begin, 1); }
  void whole(std::size_t n) {
    if (program_.nodes[n].kind == Kind::group)
      fill(n, 0, groups_, program_.group);
    else if (program_.nodes[n].kind == Kind::top)
      fill(n, 0, program_.top, 1);
    else
      fill(n, 0, 1, 0);
  }

  /// The sum of what may be at a column: a value that only may be adds an interval with 0.
  BoundedOf<Real> scatter(const Node& node, std::int64_t column) const {
    BoundedOf<Real> sum{0, 0};
    bool first = true;
    for (std::int64_t rank = 0; rank < program_.top; ++rank) {
      const BoundedOf<Real> place = at(node.operands[0], rank, 0), value = at(node.operands[1], rank, 0);
      if (std::fabs(place.value - static_cast<double>(column)) > place.bound) continue;
      const bool surely = place.bound == 0;
      const bool finite = std::isfinite(value.value) && std::isfinite(value.bound);
      const BoundedOf<Real> added =
          surely ? value : BoundedOf<Real>{0, finite ? std::fabs(value.value) + value.bound : anything};
      // Additions of 0 are exact.
      sum = first ? added : apply(Operation::add, sum, added, {}, false);
      first = false;
    }
    return sum;
  }

  BoundedOf<Real> result(const Node& node, std::int64_t group) {
    const Reduction& reduction = program_.reductions[index(node.index)];
    if (reduction.reducer == Reducer::topk) return tops_[index(node.index)].result(node.part, index(group));
    if (reduction.of_top && results_[index(node.index)].empty()) reduce_top(node.index);
    const Outcomes<Real> all = results_[index(node.index)][index(group)].outcomes(node.part);
    if (all.count == 1) return all.values[0];
    if (!program_.reductions[index(node.index)].grouped) return all.values[choices_.of(node.index, all.count)];
    // All groups have the same choice, which covers elements that depend on one group.
    if (evaluator_.mixes_groups(node.index)) return {all.values[0].value, anything};
    return all.values[std::min(choices_.of(node.index, all.values.size()), all.count - 1)];
  }

  void start_reductions(int stage) {
    for (std::size_t r = 0; r < results_.size(); ++r) {
      const Reduction& reduction = program_.reductions[r];
      if (reduction.stage != stage) continue;
      if (reduction.of_top) continue;
      if (reduction.reducer == Reducer::topk) {
        tops_[r] = TopOfTerms<Real>(program_.top, reduction.operands.size() - 1);
        continue;
      }
      results_[r].assign(index(reduction.grouped ? groups_ : 1), Accumulator<Real>(reduction, monoid_of(reduction)));
    }
  }

  const Monoid* monoid_of(const Reduction& reduction) const {
    return reduction.monoid < 0 ? nullptr : &program_.monoids[index(reduction.monoid)];
  }

  /// Reduces values of the chosen columns, which all are known.
  void reduce_top(int r) {
    const Reduction& reduction = program_.reductions[index(r)];
    Accumulator<Real> all(reduction, monoid_of(reduction));
    std::vector<BoundedOf<Real>> terms(reduction.operands.size());
    for (std::int64_t rank = 0; rank < program_.top; ++rank) {
      for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = at(reduction.operands[i], rank, 0);
      all.add(rank, terms.data());
    }
    results_[index(r)].assign(1, all);
  }

  void reduce(int stage, std::int64_t begin, std::int64_t end) {
    for (std::size_t r = 0; r < results_.size(); ++r) {
      const Reduction& reduction = program_.reductions[r];
      if (reduction.stage != stage || reduction.of_top) continue;
      std::vector<BoundedOf<Real>> terms(reduction.operands.size());
      for (std::int64_t column = begin; column < end; ++column) {
        for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = at(reduction.operands[i], column, begin);
        if (reduction.reducer == Reducer::topk)
          tops_[r].add(column, terms.data());
        else
          results_[r][index(reduction.grouped ? column / program_.group : 0)].add(column, terms.data());
      }
      if (reduction.reducer == Reducer::topk && end == evaluator_.cols()) tops_[r].finish();
    }
  }

  void store_columns(std::vector<OutputRowOf<Real>>& outputs, std::int64_t begin, std::int64_t end) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const Output& output = program_.outputs[o];
      if (!along_columns(output)) continue;
      for (std::int64_t column = begin; column < end; ++column)
        outputs[o].elements.push_back(at(evaluator_.value_of(output), column, begin));
    }
  }

  void store_whole(std::vector<OutputRowOf<Real>>& outputs) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const Output& output = program_.outputs[o];
      if (along_columns(output)) continue;
      const std::int64_t count = output.kind == Kind::group ? groups_ : output.kind == Kind::top ? program_.top : 1;
      const int value = evaluator_.value_of(output);
      for (std::int64_t i = 0; i < count; ++i)
        outputs[o].elements.push_back(at(value, output.kind == Kind::top ? i : i * program_.group, 0));
      const Node& node = program_.nodes[index(value)];
      if (node.operation == Operation::reduced && output.kind == Kind::top && node.part == 1 &&
          program_.reductions[index(node.index)].reducer == Reducer::topk)
        for (std::int64_t rank = 0; rank < count; ++rank)
          outputs[o].candidates_of_ranks.push_back(tops_[index(node.index)].candidates(index(rank)));
      if (node.operation != Operation::reduced || output.kind == Kind::top || count != 1) continue;
      const Reducer reducer = program_.reductions[index(node.index)].reducer;
      if (reducer != Reducer::argmax && reducer != Reducer::argmin) continue;
      std::vector<std::int64_t> candidates = results_[index(node.index)][0].candidates();
      if (candidates.size() > 1) outputs[o].candidates = std::move(candidates);
    }
  }

  const EvaluatorOf<Real>& evaluator_;
  const Program& program_;
  std::int64_t row_;
  std::span<const std::span<const double>> inputs_;
  Choices& choices_;
  std::int64_t groups_;
  std::vector<std::vector<BoundedOf<Real>>> values_;     // for each node
  std::vector<std::vector<Accumulator<Real>>> results_;  // for each reduction
  std::vector<TopOfTerms<Real>> tops_;                   // of topk
};

}  // namespace

template <typename Real>
EvaluatorOf<Real>::EvaluatorOf(Program program, std::int64_t rows, std::int64_t cols, std::vector<double> numbers)
    : program_(std::move(program)), rows_(rows), cols_(cols), numbers_(std::move(numbers)) {
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const Type type = program_.numbers[i].type;
    numbers_[i] = round_to_type(type == Type::f32 ? Arithmetic<Real>::type : type, numbers_[i]);
  }
  find_nonnegative();
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
void EvaluatorOf<Real>::find_nonnegative() {
  nonnegative_.resize(program_.nodes.size());
  for (std::size_t n = 0; n < nonnegative_.size(); ++n) {
    const Node& node = program_.nodes[n];
    const auto operand = [&](std::size_t i) { return node.operands[i] >= 0 && is_nonnegative(node.operands[i]); };
    bool result = false;
    switch (node.operation) {
      case Operation::constant: result = node.value >= 0; break;
      case Operation::row_index:
      case Operation::col_index:
      case Operation::rows:
      case Operation::cols:
      case Operation::rank:
      case Operation::absolute:
      case Operation::exp:
      case Operation::exp2:
      case Operation::sqrt:
      case Operation::rsqrt:
      case Operation::sigmoid:
      case Operation::uniform: result = true; break;
      case Operation::multiply: result = node.operands[0] == node.operands[1] || (operand(0) && operand(1)); break;
      case Operation::add:
      case Operation::divide:
      case Operation::minimum: result = operand(0) && operand(1); break;
      case Operation::maximum: result = operand(0) || operand(1); break;
      case Operation::scatter: result = operand(1); break;
      case Operation::select: result = operand(1) && operand(2); break;
      case Operation::round_to: result = operand(0); break;
      case Operation::reduced: {
        const Reduction& r = program_.reductions[index(node.index)];
        const bool keeps = r.reducer == Reducer::sum || r.reducer == Reducer::mean || r.reducer == Reducer::max ||
                           r.reducer == Reducer::min;
        result = (keeps && is_nonnegative(r.operands[0])) || (r.reducer == Reducer::moments && node.part == 1) ||
                 (r.reducer == Reducer::lse && node.part == 2);
        break;
      }
      default: break;
    }
    nonnegative_[n] = result;
  }
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
  std::vector<OutputRowOf<Real>> outputs = Row<Real>(*this, row, inputs, choices).evaluate();
  constexpr int most_combinations = 64;
  for (int combination = 1; choices.next(); ++combination) {
    const std::vector<OutputRowOf<Real>> others = Row<Real>(*this, row, inputs, choices).evaluate();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (others[o].candidates != outputs[o].candidates || others[o].candidates_of_ranks != outputs[o].candidates_of_ranks ||
          combination == most_combinations) {
        outputs[o].candidates.clear();
        outputs[o].candidates_of_ranks.clear();
        for (BoundedOf<Real>& element : outputs[o].elements) element.bound = anything;
      }
      outputs[o].if_overflowed.push_back(others[o].elements);
    }
    if (combination == most_combinations) break;
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

template <typename Real>
void ColumnSumsOf<Real>::add(const OutputRowOf<Real>& terms) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const bool certain = std::ranges::all_of(terms.if_overflowed, [&](const auto& others) {
      return others[i].bound == 0 && terms.elements[i].bound == 0 && others[i].value == terms.elements[i].value;
    });
    sums_[i].add(certain ? terms.elements[i] : BoundedOf<Real>{terms.elements[i].value, anything});
  }
}

template <typename Real>
void ColumnSumsOf<Real>::add(const ColumnSumsOf& other) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].add(other.sums_[i]);
}

template <typename Real>
OutputRowOf<Real> ColumnSumsOf<Real>::sums() const {
  return outcomes_of(sums_, column_sum_roundings);
}

template <typename Real>
OutputRowOf<Real> ColumnSumsOf<Real>::total() const {
  SumOfTerms<Real> total;
  for (const SumOfTerms<Real>& sum : sums_) total.add(sum);
  return outcomes_of({total}, sum_roundings);
}

template <typename Real>
OutputRowOf<Real> ColumnSumsOf<Real>::outcomes_of(const std::vector<SumOfTerms<Real>>& sums, Real roundings) {
  OutputRowOf<Real> row;
  std::vector<Outcomes<Real>> all;
  std::size_t most = 1;
  for (const SumOfTerms<Real>& sum : sums) {
    all.push_back(sum.outcomes(std::min<Real>(sum.count(), roundings)));
    most = std::max(most, all.back().count);
    row.elements.push_back(all.back().values[0]);
  }
  for (std::size_t k = 1; k < most; ++k) {
    std::vector<BoundedOf<Real>>& others = row.if_overflowed.emplace_back();
    for (const Outcomes<Real>& of : all) others.push_back(of.values[k < of.count ? k : 0]);
  }
  return row;
}

template struct OutputRowOf<double>;
template struct OutputRowOf<long double>;
template class EvaluatorOf<double>;
template class EvaluatorOf<long double>;
template class ColumnSumsOf<double>;
template class ColumnSumsOf<long double>;

}  // namespace tunesmith::row_program
