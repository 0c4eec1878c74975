#pragma once
// Writes the functions of a row program's generated `struct Program`. Internal to templates/.

#include <string>
#include <vector>

#include "templates/row_program/emit/value_texts.h"
#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Each function returns the text of a device function that kernels call. The arguments must outlive the object.
class ProgramFunctions {
 public:
  /// `kept`: nodes whose values replace the inputs after the last stage (kept_nodes()).
  ProgramFunctions(const Program& program, const ValueTexts& value_texts, const std::vector<int>& kept);

  /// Computes the terms of a stage's reductions at one column, over groups or over rows.
  std::string terms(int stage, bool grouped) const;
  /// Returns the column of a sum whose other terms are 0, and computes that term. `number`: among gathers_of().
  std::string gather(std::size_t number) const;
  /// Computes the values [row] and [row, k] that are known after a stage, from the results of its reductions.
  std::string derive(int stage) const;
  /// Computes the values [row, col/N] that are known after a stage.
  std::string derive_group(int stage) const;
  /// Computes the outputs [row, col] and the terms of sums over rows at one column. `of_kept`: from the values that replaced
  /// the inputs.
  std::string outputs(bool of_kept) const;
  /// Stores the outputs [row] and [row, k].
  std::string store_row() const;
  /// Stores the outputs [row, col/N].
  std::string store_groups() const;
  /// Stores one sum over rows.
  std::string store_sum() const;

 private:
  const Node& node(int index) const { return program_.nodes[static_cast<std::size_t>(index)]; }
  std::string expression(FunctionBody& body, int index) const { return value_texts_.expression(body, index); }
  void count_uses(FunctionBody& body, int index) const { value_texts_.count_uses(body, index); }
  int full_outputs() const;
  /// Returns the position of an output among the sums over rows.
  int sum_position(std::size_t output) const;
  /// Returns the node that a store rounds to the output's type: rounding it before would change nothing.
  int stored_node(const Output& output) const;
  std::string store_value_of_row(FunctionBody& body, int index) const;
  std::string store_of(const Output& output, const std::string& position_text, const std::string& value) const;
  /// `value`: at one rank.
  std::string store_of_top(const Output& output, const std::string& value) const;

  const Program& program_;
  const ValueTexts& value_texts_;
  const std::vector<int>& kept_;
  const bool wide_;
};

}  // namespace tunesmith::row_program
