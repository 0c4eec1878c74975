#include "templates/row_program/evaluate/evaluate_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "templates/row_program/evaluate/accumulate.h"
#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/evaluate/random.h"
#include "templates/row_program/evaluate/rounding.h"
#include "templates/row_program/evaluate/top_of_terms.h"
#include "templates/row_program/passes/plain_sums.h"

namespace tunesmith::row_program {
namespace {

constexpr std::int64_t chunk = 1024;  // columns; groups divide it

bool along_columns(Kind kind) noexcept { return kind == Kind::col || kind == Kind::full; }
/// Reports whether the evaluation of a row gives an element of the output for each column.
bool along_columns(const Output& output) noexcept { return along_columns(output.kind) || output.sum_over_rows; }

/// One row in evaluation. Values of the row and of its groups are kept. Values of columns are recomputed in each pass, which
/// visits the columns in chunks.
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
        sum_roundings_(allows_plain_sums(program_) ? plain_sum_roundings : sum_roundings),
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

  /// Computes `count` values of a node, at the columns begin, begin + step, ...
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

  /// The sum of the values that may be at a column: an uncertain value adds an interval that contains 0.
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
      results_[r].assign(index(reduction.grouped ? groups_ : 1),
                         Accumulator<Real>(reduction, monoid_of(reduction), sum_roundings_));
    }
  }

  const Monoid* monoid_of(const Reduction& reduction) const {
    return reduction.monoid < 0 ? nullptr : &program_.monoids[index(reduction.monoid)];
  }

  /// Reduces values of the chosen columns, which all are known.
  void reduce_top(int r) {
    const Reduction& reduction = program_.reductions[index(r)];
    Accumulator<Real> all(reduction, monoid_of(reduction), sum_roundings_);
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
  std::vector<std::vector<BoundedOf<Real>>> values_;  // for each node
  double sum_roundings_;
  std::vector<std::vector<Accumulator<Real>>> results_;  // for each reduction
  std::vector<TopOfTerms<Real>> tops_;                   // of topk
};

}  // namespace

template <typename Real>
std::vector<OutputRowOf<Real>> evaluate_row(const EvaluatorOf<Real>& evaluator, std::int64_t row,
                                            std::span<const std::span<const double>> inputs, Choices& choices) {
  return Row<Real>(evaluator, row, inputs, choices).evaluate();
}

template std::vector<OutputRowOf<double>> evaluate_row(const EvaluatorOf<double>&, std::int64_t,
                                                       std::span<const std::span<const double>>, Choices&);
template std::vector<OutputRowOf<long double>> evaluate_row(const EvaluatorOf<long double>&, std::int64_t,
                                                            std::span<const std::span<const double>>, Choices&);

}  // namespace tunesmith::row_program
