#pragma once
// Expressions of the generated functions: which values a function computes, and which it reads from the structs Values and
// Groups. Internal to templates/.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "templates/row_program/emit/value_names.h"
#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Reports whether a value is the same for all columns of a row. A value [row, k] is an array that all threads have.
constexpr bool is_rowwise(Kind kind) { return kind == Kind::scalar || kind == Kind::row || kind == Kind::top; }

/// Position of an array among the arrays of its kind.
template <typename Array>
int position(const std::vector<Array>& arrays, std::size_t index) {
  int count = 0;
  for (std::size_t i = 0; i < index; ++i) count += arrays[i].kind == arrays[index].kind ? 1 : 0;
  return count;
}

/// The head of the loop over the values of a kind, with the indentation of its body: over the chosen columns, or none.
std::string loop_over(Kind kind);

/// One function under construction.
struct FunctionBody {
  enum class Place : std::uint8_t { element, of_row, of_group };
  Place place = Place::element;
  int stage = 0;  ///< of the values of rows or groups that it computes
  std::map<int, int> uses;
  std::map<int, std::string> done;
  std::map<int, std::string> reduced;  ///< partial results of reductions of values [row, k]
  std::string lines;                   ///< values that are named or used twice
};

/// The program must outlive it.
class ValueTexts {
 public:
  explicit ValueTexts(const Program& program);

  const std::string& name(int node) const { return names_.values[static_cast<std::size_t>(node)]; }
  const std::string& divisor_name(int node) const { return names_.divisors[static_cast<std::size_t>(node)]; }
  /// Returns the device type of a divisor.
  std::string divisor_type_of(int node) const;
  const std::string& exponential_name(int node) const { return names_.exponentials[static_cast<std::size_t>(node)]; }
  /// Values of rows and groups that functions other than their own read.
  const std::set<int>& members() const { return members_; }
  /// Values of rows and groups by which values of columns are divided.
  const std::set<int>& divisors() const { return divisors_; }
  /// Values b of rows in exponentials exp(a - b) of values of columns.
  const std::set<int>& exponentials() const { return exponentials_; }

  /// Returns how many calls of uniform() the program has whose numbers vary by column (row/random.cuh).
  int uniform_calls() const;

  /// Reports whether a node is a sum that a function of its own computes (gather.h).
  bool is_gathered(int index) const {
    const Node& of = node(index);
    return of.operation == Operation::reduced && program_.reductions[static_cast<std::size_t>(of.index)].gathered_at >= 0;
  }

  /// Counts the uses in a function before expression() is called.
  void count_uses(FunctionBody& body, int index) const;
  /// Returns the expression of a node, after adding the lines that it needs.
  std::string expression(FunctionBody& body, int index) const;

 private:
  const Node& node(int index) const { return program_.nodes[static_cast<std::size_t>(index)]; }
  static bool is_uniform_of_column(const Node& of);
  /// Reports whether neighbouring elements compute this random number together.
  static bool shares_numbers(const FunctionBody& body, const Node& of);
  int uniform_calls_before(const Node& of) const;
  bool is_from_row(const Node& of) const;
  bool is_trivial(int index) const;
  bool is_read(const FunctionBody& body, int index) const;
  std::string leaf_text(const FunctionBody& body, int index) const;
  std::string reduced_text(const Node& of) const;
  std::string reduced_top_text(FunctionBody& body, int index) const;
  std::string scatter_text(FunctionBody& body, int index) const;
  std::string special_text(const Node& of, const std::array<std::string, 3>& operands,
                           const std::array<const Node*, 3>& nodes, FunctionBody& body) const;

  const Program& program_;
  const ValueNames names_;
  const std::vector<double> lower_bounds_;
  const bool precise_, wide_;
  std::set<int> members_, divisors_, exponentials_;
};

}  // namespace tunesmith::row_program
