#pragma once
// Builds the graph of a row program: shares equal values, folds constants, finds kinds and stages. Internal to templates/.

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns the kind of a function of values of both kinds.
Kind joined(Kind a, Kind b) noexcept;
/// Reports whether a function can take values of both kinds: no two dimensions are k and columns.
constexpr bool combine(Kind a, Kind b) noexcept {
  return !(a == Kind::top && b >= Kind::col) && !(b == Kind::top && a >= Kind::col);
}
/// Reports whether a value of kind `from` can be stored in an array of kind `to`.
bool broadcasts(Kind from, Kind to) noexcept;
/// Reports whether values of the kind differ between columns.
constexpr bool varies_along_columns(Kind kind) noexcept { return kind >= Kind::col; }

/// A number in f32, and in f64 (Node::wide_value).
struct Constant {
  double value = 0, wide_value = 0;
};

/// A growing graph. Functions return indices into nodes() and reductions(). Only exact simplifications are made: results in
/// f32 equal the results of the operations as written.
class Graph {
 public:
  static constexpr std::size_t max_nodes = 2000;

  /// `wide`: of a program that computes in f64, after with_dtype(). Constants are not rounded.
  explicit Graph(bool wide = false) : wide_(wide) {}

  bool is_wide() const { return wide_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Reduction>& reductions() const { return reductions_; }
  const Node& operator[](int node) const { return nodes_[static_cast<std::size_t>(node)]; }

  /// Sets the place that the following nodes get, unless they exist already.
  void set_place(Place place) { place_ = place; }
  void set_name(int node, std::string_view name);

  int constant(double value, Type type = Type::f32) { return constant(value, value, type); }
  /// `wide_value`: the constant for arithmetic in f64 (Node::wide_value).
  int constant(double value, double wide_value, Type type = Type::f32);
  /// Returns the number that a node always has; empty for other nodes.
  std::optional<Constant> constant_value(int node) const;
  int leaf(Operation operation, Kind kind, Type type, int index = 0, int part = 0);
  /// Adds a function. i32 operands are converted to f32 where the operation takes only f32; an f32 constant that is an
  /// integer becomes an i32 next to an i32 operand where both may be i32. Types must be correct otherwise.
  int apply(Operation operation, int a, int b = -1, int c = -1);
  /// Adds a conversion. None is added if the value has the type already. f32 and f64 are the type of arithmetic.
  int round_to(int value, Type type);
  int round_to_problem_dtype(int value);
  int uniform(int seed, int index);
  /// Adds Operation::scatter of an i32 and a value.
  int scatter(int column, int value);
  int to_f32(int value);
  /// Converts a boolean to 0 or 1, and other values to `type`.
  int cast(int value, Type type);

  /// Reports whether a function has operands whose kinds do not combine().
  bool has_mixed_kinds() const { return mixed_; }

  /// Adds a reduction and returns its index. Operands are converted to f32.
  int reduce(Reducer reducer, std::vector<int> operands, bool grouped, int monoid = -1);
  /// Returns a result of a reduction.
  int result(int reduction, int part = 0);

  /// Fills Program::nodes and reductions with what the outputs of `program` need and sets stages. Output::node and nodes of
  /// monoids refer to this graph before and to the program afterwards.
  void finish(Program& program) const;

 private:
  using Key = std::tuple<Operation, Type, bool, int, int, int, int, int, std::uint64_t, std::uint64_t>;
  int add(Node node);
  int simplified(const Node& node) const;
  int folded_constant(double value, double wide_value, Type type);
  bool is_constant(int node, double value) const;
  void match_integers(int& a, int& b);

  bool wide_;
  Place place_;
  bool mixed_ = false;
  std::vector<Node> nodes_;
  std::vector<Reduction> reductions_;
  std::map<Key, int> known_;
};

}  // namespace tunesmith::row_program
