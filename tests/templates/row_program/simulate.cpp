#include "tests/templates/row_program/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/evaluate/random.h"
#include "templates/row_program/evaluate/rounding.h"

namespace tunesmith::row_program {
namespace {

std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

float function(Operation operation, float a, float b, float c) {
  switch (operation) {
    case Operation::exp: return std::exp(a);
    case Operation::exp2: return std::exp2(a);
    case Operation::log: return std::log(a);
    case Operation::log1p: return std::log1p(a);
    case Operation::tanh: return std::tanh(a);
    case Operation::erf: return std::erf(a);
    case Operation::rsqrt: return 1.0f / std::sqrt(a);
    case Operation::sigmoid: return 1.0f / (1.0f + std::exp(-a));
    default: return static_cast<float>(apply<double>(operation, {a, b, c}));  // exact or correctly rounded
  }
}

float sum(const std::vector<float>& terms) {
  float total = 0, lost = 0;
  for (std::size_t i = 0; i < terms.size(); i += 8) {
    float part = 0;
    for (std::size_t j = i; j < std::min(i + 8, terms.size()); ++j) part += terms[j];
    const float next = total + part, back = next - total;
    lost += (total - (next - back)) + (part - back);
    total = next;
  }
  return std::isfinite(total) ? total + lost : total;
}

bool is_nan(float x) { return std::isnan(x); }

std::vector<double> reduce(Reducer reducer, const std::vector<float>& x, std::int64_t first_column) {
  const auto count = static_cast<float>(x.size());
  const bool nan = std::ranges::any_of(x, is_nan);
  const float largest = nan ? NAN : *std::ranges::max_element(x), smallest = nan ? NAN : *std::ranges::min_element(x);
  std::vector<float> terms;
  switch (reducer) {
    case Reducer::sum: return {sum(x)};
    case Reducer::mean: return {sum(x) / count};
    case Reducer::max: return {largest};
    case Reducer::min: return {smallest};
    case Reducer::lse: {
      for (const float value : x) terms.push_back(std::exp(value - largest));
      const float total = sum(terms);
      return {std::isfinite(largest) ? largest + std::log(total) : largest, largest, total};
    }
    case Reducer::moments: {
      const float mean = sum(x) / count;
      for (const float value : x) terms.push_back((value - mean) * (value - mean));
      return {mean, sum(terms) / count};
    }
    case Reducer::argmax:
    case Reducer::argmin: {
      const auto found =
          nan ? std::ranges::find_if(x, is_nan) : std::ranges::find(x, reducer == Reducer::argmax ? largest : smallest);
      return {static_cast<double>(first_column + (found - x.begin()))};
    }
    case Reducer::any: return {largest};
    case Reducer::all: return {smallest};
    default: return {sum(x)};
  }
}

/// Combines the terms one after the other. `terms`: one list for each component.
std::vector<double> combine(const Monoid& monoid, const std::vector<std::vector<float>>& terms) {
  const std::size_t width = monoid.identity.size();
  std::vector<float> partial(monoid.identity.begin(), monoid.identity.end()), values(monoid.nodes.size());
  for (std::size_t column = 0; column < terms[0].size(); ++column) {
    for (std::size_t n = 0; n < values.size(); ++n) {
      const Node& node = monoid.nodes[n];
      const auto at = [&](std::size_t k) { return node.operands[k] < 0 ? 0 : values[index(node.operands[k])]; };
      if (node.operation == Operation::parameter)
        values[n] = index(node.index) < width ? partial[index(node.index)] : terms[index(node.index) - width][column];
      else
        values[n] = node.operation == Operation::constant ? static_cast<float>(node.value)
                                                          : function(node.operation, at(0), at(1), at(2));
    }
    for (std::size_t i = 0; i < width; ++i) partial[i] = values[index(monoid.results[i])];
  }
  return {partial.begin(), partial.end()};
}

}  // namespace

std::vector<std::vector<double>> simulate(const Program& program, std::int64_t rows, std::int64_t cols, std::int64_t row,
                                          const std::vector<double>& numbers,
                                          const std::vector<std::vector<double>>& inputs) {
  std::vector<std::vector<double>> values(program.nodes.size());
  const auto at = [&](int node, std::int64_t column) {
    const auto& all = values[index(node)];
    switch (program.nodes[index(node)].kind) {
      case Kind::scalar:
      case Kind::row: return all[0];
      case Kind::top: return all[index(column)];
      case Kind::group: return all[index(column / program.group)];
      default: return all[index(column)];
    }
  };
  const auto top = [&](const Reduction& reduction, int part, std::int64_t rank) {
    std::vector<std::int64_t> columns(index(cols));
    std::iota(columns.begin(), columns.end(), 0);
    const auto key = [&](std::int64_t column) {
      const double value = at(reduction.operands[0], column);
      return std::pair(std::isnan(value), std::isnan(value) ? 0.0 : value);
    };
    std::ranges::stable_sort(columns, [&](std::int64_t a, std::int64_t b) { return key(b) < key(a); });
    const std::int64_t column = columns[index(rank)];
    if (part == 1) return static_cast<double>(column);
    return at(reduction.operands[part == 0 ? 0 : index(part) - 1], column);
  };
  for (std::size_t n = 0; n < values.size(); ++n) {
    const Node& node = program.nodes[n];
    std::int64_t count = 1, step = 1;
    if (node.kind == Kind::col || node.kind == Kind::full) count = cols;
    if (node.kind == Kind::group) {
      count = (cols + program.group - 1) / program.group;
      step = program.group;
    }
    if (node.kind == Kind::top) count = program.top;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = i * step;
      double value = 0;
      switch (node.operation) {
        case Operation::constant: value = node.value; break;
        case Operation::input: value = inputs[index(node.index)][index(i)]; break;
        case Operation::number:
          value = round_to_type(program.numbers[index(node.index)].type, numbers[index(node.index)]);
          break;
        case Operation::row_index: value = static_cast<double>(row); break;
        case Operation::col_index: value = static_cast<double>(column); break;
        case Operation::rows: value = static_cast<double>(rows); break;
        case Operation::cols: value = static_cast<double>(cols); break;
        case Operation::rank: value = static_cast<double>(i); break;
        case Operation::scatter: {
          float sum = 0;
          for (std::int64_t rank = 0; rank < program.top; ++rank)
            if (at(node.operands[0], rank) == static_cast<double>(column))
              sum += static_cast<float>(at(node.operands[1], rank));
          value = static_cast<double>(sum);
          break;
        }
        case Operation::round_to: value = round_to_type(node.type, at(node.operands[0], column)); break;
        case Operation::uniform:
          value = uniform(static_cast<std::int32_t>(at(node.operands[0], column)), row, column, node.index);
          break;
        case Operation::reduced: {
          const Reduction& reduction = program.reductions[index(node.index)];
          const std::int64_t begin = reduction.grouped ? column : 0;
          if (reduction.reducer == Reducer::topk) {
            value = top(reduction, node.part, i);
            break;
          }
          const std::int64_t end = reduction.of_top    ? program.top
                                   : reduction.grouped ? std::min<std::int64_t>(begin + program.group, cols)
                                                       : cols;
          std::vector<std::vector<float>> terms;
          for (const int operand : reduction.operands) {
            terms.emplace_back();
            for (std::int64_t c = begin; c < end; ++c) terms.back().push_back(static_cast<float>(at(operand, c)));
          }
          const auto results = reduction.monoid >= 0 ? combine(program.monoids[index(reduction.monoid)], terms)
                                                     : reduce(reduction.reducer, terms[0], begin);
          value = results[index(node.part)];
          break;
        }
        default: {
          std::array<float, 3> x{};
          for (std::size_t k = 0; k < 3; ++k)
            if (node.operands[k] >= 0) x[k] = static_cast<float>(at(node.operands[k], column));
          value = static_cast<double>(function(node.operation, x[0], x[1], x[2]));
        }
      }
      values[n].push_back(value);
    }
  }
  std::vector<std::vector<double>> outputs;
  for (const Output& output : program.outputs) {
    std::int64_t count = 1, step = 1;
    if (output.kind == Kind::col || output.kind == Kind::full || output.sum_over_rows) count = cols;
    if (output.kind == Kind::top) count = program.top;
    if (output.kind == Kind::group) {
      count = (cols + program.group - 1) / program.group;
      step = program.group;
    }
    std::vector<double> row_of_output;
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = at(output.node, i * step);
      row_of_output.push_back(output.sum_over_rows ? value : round_to_type(*output.type, value));
    }
    outputs.push_back(std::move(row_of_output));
  }
  return outputs;
}

}  // namespace tunesmith::row_program
