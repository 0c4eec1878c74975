#include "templates/row_program/passes/gather.h"

#include <algorithm>
#include <set>

#include "templates/row_program/emit/value_texts.h"
#include "templates/row_program/problem.h"

namespace tunesmith::row_program {
namespace {

class Search {
 public:
  Search(const Program& program, const GatherLimits& limits) : program_(program), limits_(limits) {}

  /// Returns the node of a column C such that the number `index` is 0 in every column but C, or -1.
  int only_column(int index) const {
    const Node& of = node(index);
    switch (of.operation) {
      case Operation::negate:
      case Operation::absolute:
      case Operation::round_to: return only_column(of.operands[0]);
      case Operation::select:
        if (is_zero(of.operands[2])) return column_where(of.operands[0], true);
        return is_zero(of.operands[1]) ? column_where(of.operands[0], false) : -1;
      default: return -1;
    }
  }

 private:
  const Node& node(int index) const { return program_.nodes[static_cast<std::size_t>(index)]; }
  bool is_zero(int index) const { return node(index).operation == Operation::constant && node(index).value == 0; }
  bool is_column(int index) const {
    const Node& of = node(index);
    if (of.operation == Operation::round_to && of.type == Type::f32) return is_column(of.operands[0]);
    return of.operation == Operation::col_index;
  }

  /// Returns the node of a column C such that the boolean `index` is `value` in no column but C, or -1.
  int column_where(int index, bool value) const {
    const Node& of = node(index);
    const int a = of.operands[0], b = of.operands[1];
    if (of.operation == Operation::logical_not) return column_where(a, !value);
    if (of.operation == (value ? Operation::logical_and : Operation::logical_or))
      return std::max(column_where(a, value), column_where(b, value));
    if (of.operation != (value ? Operation::equal : Operation::not_equal)) return -1;
    const int column = is_column(a) ? b : is_column(b) ? a : -1;
    // A float has the digits of columns up to 2^24. Beyond, several columns may be equal to one.
    const bool has_digits = column < 0 || node(column).type == Type::i32 || computes_in_f64(program_) ||
                            limits_.max_cols <= std::int64_t{1} << 24;
    return column >= 0 && (node(column).kind == Kind::row || node(column).kind == Kind::scalar) && has_digits ? column : -1;
  }

  const Program& program_;
  const GatherLimits limits_;
};

/// Collects the operands of a term at one column.
void add_columns(const Program& program, int index, std::set<int>& seen) {
  const Node& of = program.nodes[static_cast<std::size_t>(index)];
  if (is_rowwise(of.kind) || !seen.insert(index).second) return;
  for (const int operand : of.operands)
    if (operand >= 0) add_columns(program, operand, seen);
}

/// Reports whether one thread can compute a term alone, from inputs that no thread has overwritten, and saves time by it.
bool can_load(const Program& program, int term, const GatherLimits& limits, const std::vector<RowProgramInPlace>& in_place) {
  // The sector of 32 bytes that is loaded again is in a cache, but the caches' bandwidth limits kernels of short rows: a
  // loss that loads it takes up to 1.3 of the time with rows of 80 bytes.
  constexpr std::int64_t min_bytes = 1024;
  std::set<int> nodes;
  add_columns(program, term, nodes);
  return std::ranges::all_of(nodes, [&](int index) {
    const Node& of = program.nodes[static_cast<std::size_t>(index)];
    if (of.kind == Kind::group && of.stage > 0) return false;  // reduced by several threads
    if (of.operation == Operation::uniform || of.operation == Operation::scatter) return false;  // rare: kept simple
    if (of.operation != Operation::input || of.kind != Kind::full) return true;
    const Input& input = program.inputs[static_cast<std::size_t>(of.index)];
    return limits.cols * size_of(dtype_of(*input.type)) >= min_bytes &&
           std::ranges::find(in_place, input.name, &RowProgramInPlace::input) == in_place.end();
  });
}

}  // namespace

Program with_gathers(const Program& program, const GatherLimits& limits, const std::vector<RowProgramInPlace>& in_place) {
  const Search search(program, limits);
  Program made = program;
  for (Reduction& reduction : made.reductions) {
    if (reduction.reducer != Reducer::sum || reduction.grouped || reduction.of_top) continue;
    const int column = search.only_column(reduction.operands[0]);
    if (column >= 0 && can_load(program, reduction.operands[0], limits, in_place)) reduction.gathered_at = column;
  }
  if (!limits.keeps_exchanges) return made;
  for (int stage = 1; stage <= made.stages; ++stage) {
    const auto of_stage = [&](const Reduction& reduction) { return reduction.stage == stage; };
    const bool exchanges = std::ranges::any_of(
        made.reductions, [&](const Reduction& reduction) { return of_stage(reduction) && reduction.is_exchanged(); });
    for (Reduction& reduction : made.reductions)
      if (of_stage(reduction) && !exchanges) reduction.gathered_at = -1;
  }
  return made;
}

std::vector<std::size_t> gathers_of(const Program& program) {
  std::vector<std::size_t> gathers;
  for (std::size_t r = 0; r < program.reductions.size(); ++r)
    if (program.reductions[r].gathered_at >= 0) gathers.push_back(r);
  return gathers;  // Program::reductions are in the order of their stages
}

}  // namespace tunesmith::row_program
