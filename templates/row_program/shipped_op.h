#pragma once
// Shipped row programs as operations of their own: `layer_norm` is `row_program` with that program. Internal to templates/.

#include <string>

#include "templates/op.h"

namespace tunesmith {

/// An operation with the fields of row_program, except the program. Problems are parsed as row_program problems, so keys and
/// kernels are the same.
class ShippedProgramOp final : public Op {
 public:
  /// `name`: of a shipped program, or of the gradient of one ("layer_norm_gradient").
  ShippedProgramOp(const Op& row_program, std::string name) : row_program_(row_program), name_(std::move(name)) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view summary() const noexcept override { return "a shipped row program"; }
  bool is_internal() const noexcept override { return true; }
  std::vector<FieldInfo> problem_fields() const override;
  std::vector<FieldInfo> config_fields() const override { return row_program_.config_fields(); }
  std::vector<std::string> templates() const override { return row_program_.templates(); }
  ParsedProblemPtr parse(const Problem& problem) const override;
  std::vector<DescribedField> describe_fields(const Fields& known) const override;
  std::vector<ArrayInfo> describe_arrays(const Fields& known) const override;
  Fields infer_fields(const Fields& known, std::string_view array, std::span<const std::int64_t> shape) const override;

 private:
  Fields with_program(Fields fields) const;

  const Op& row_program_;
  const std::string name_;
};

/// Returns the shipped programs and their gradients as operations, except those whose names are in all_ops(). find_op()
/// finds them, too.
std::span<const Op* const> shipped_program_ops();

}  // namespace tunesmith
