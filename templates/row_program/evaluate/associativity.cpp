#include "templates/row_program/evaluate/associativity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include "templates/row_program/evaluate/bounded.h"
#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/evaluate/rounding.h"
#include "templates/row_program/language/diagnostic.h"

namespace tunesmith::row_program {
namespace {

using Tuple = std::vector<double>;

Tuple combine(const Monoid& monoid, const Tuple& left, const Tuple& right) {
  std::vector<double> values(monoid.nodes.size());
  const auto at = [&](int node) { return node < 0 ? 0 : values[static_cast<std::size_t>(node)]; };
  for (std::size_t n = 0; n < values.size(); ++n) {
    const Node& node = monoid.nodes[n];
    const auto index = static_cast<std::size_t>(node.index);
    switch (node.operation) {
      case Operation::parameter: values[n] = index < left.size() ? left[index] : right[index - left.size()]; break;
      case Operation::constant: values[n] = node.value; break;
      case Operation::round_to: values[n] = round_to_type(node.type, at(node.operands[0])); break;
      default: values[n] = apply<double>(node.operation, {at(node.operands[0]), at(node.operands[1]), at(node.operands[2])});
    }
  }
  Tuple result;
  for (const int node : monoid.results) result.push_back(at(node));
  return result;
}

/// Reports whether two results differ by more than rounding. NaN is equal to NaN only.
bool differ(const Tuple& a, const Tuple& b, double scale) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return true;
    if (std::isnan(a[i]) || a[i] == b[i]) continue;
    if (!(std::fabs(a[i] - b[i]) <= 1e-9 * std::max({std::fabs(a[i]), std::fabs(b[i]), scale}))) return true;
  }
  return false;
}

double largest(const Tuple& tuple) {
  double all = 0;
  for (const double value : tuple)
    if (std::isfinite(value)) all = std::max(all, std::fabs(value));
  return all;
}

std::string text_of(const Tuple& tuple) {
  std::ostringstream text;
  text.precision(6);
  for (std::size_t i = 0; i < tuple.size(); ++i) {
    text << (i == 0 ? "" : ", ");
    if (std::isnan(tuple[i]))
      text << "nan";  // without its sign
    else
      text << tuple[i];
  }
  return tuple.size() == 1 ? text.str() : "(" + text.str() + ")";
}

class Trial {
 public:
  Trial(const Program& program, const Reduction& reduction, const SourceText& source)
      : program_(program),
        reduction_(reduction),
        monoid_(program.monoids[static_cast<std::size_t>(reduction.monoid)]),
        source_(source) {}

  void run() {
    constexpr std::array<double, 8> special{0, 1, -1, 0.5, 3, -100, 88, -std::numeric_limits<double>::infinity()};
    std::vector<Tuple> values;
    for (const double value : special) values.push_back(term([&] { return value; }));
    std::uniform_real_distribution<double> uniform(-4, 4);
    for (int i = 0; i < 6; ++i) values.push_back(term([&] { return uniform(random_); }));
    for (int i = 0; i < 4; ++i) {
      const Tuple first = term([&] { return uniform(random_); }), second = term([&] { return uniform(random_); });
      values.push_back(combine(monoid_, first, second));
    }
    values.push_back(monoid_.identity);
    for (const Tuple& x : values) try_identity(x);
    std::vector<std::vector<Tuple>> products;
    for (const Tuple& x : values) {
      products.emplace_back();
      for (const Tuple& y : values) products.back().push_back(combine(monoid_, x, y));
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t j = 0; j < values.size(); ++j) {
        const Tuple &x = values[i], &y = values[j];
        try_order(x, y, products[i][j], products[j][i]);
        for (std::size_t k = 0; k < values.size(); ++k) try_grouping(x, y, values[k], products[i][j], products[j][k]);
      }
  }

 private:
  template <typename Make>
  Tuple term(Make make) const {
    Tuple made;
    for (const int operand : reduction_.operands) {
      const Node& node = program_.nodes[static_cast<std::size_t>(operand)];
      made.push_back(node.operation == Operation::constant ? node.value : make());
    }
    return made;
  }

  void try_identity(const Tuple& x) const {
    for (const bool left : {true, false}) {
      const Tuple result = left ? combine(monoid_, monoid_.identity, x) : combine(monoid_, x, monoid_.identity);
      if (!differ(result, x, largest(x))) continue;
      const std::string e = text_of(monoid_.identity), shown = text_of(x);
      fail("does not keep a value that is combined with its identity: " + monoid_.name + "(" +
           (left ? e + ", " + shown : shown + ", " + e) + ") = " + text_of(result));
    }
  }

  void try_order(const Tuple& x, const Tuple& y, const Tuple& xy, const Tuple& yx) const {
    if (!differ(xy, yx, std::max(largest(x), largest(y)))) return;
    fail("depends on the order, which is not fixed: " + monoid_.name + "(" + text_of(x) + ", " + text_of(y) +
         ") = " + text_of(xy) + ", exchanged: " + text_of(yx));
  }

  void try_grouping(const Tuple& x, const Tuple& y, const Tuple& z, const Tuple& xy, const Tuple& yz) const {
    const Tuple first = combine(monoid_, xy, z), second = combine(monoid_, x, yz);
    if (!differ(first, second, std::max({largest(x), largest(y), largest(z), largest(xy), largest(yz)}))) return;
    fail("is not associative: with x = " + text_of(x) + ", y = " + text_of(y) + ", z = " + text_of(z) +
         ", (x y) z = " + text_of(first) + " and x (y z) = " + text_of(second));
  }

  [[noreturn]] void fail(const std::string& what) const {
    source_.fail(monoid_.place, "monoid '" + monoid_.name + "' " + what);
  }

  const Program& program_;
  const Reduction& reduction_;
  const Monoid& monoid_;
  const SourceText& source_;
  std::mt19937 random_{1};  // NOLINT(bugprone-random-generator-seed): every run tries the same values
};

}  // namespace

void check_associativity(const Program& program, std::string_view text, std::string_view file) {
  const SourceText source{text, file};
  for (const Reduction& reduction : program.reductions)
    if (reduction.monoid >= 0) Trial(program, reduction, source).run();
}

}  // namespace tunesmith::row_program
