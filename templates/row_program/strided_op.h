#pragma once
// row_program over a dimension that is not the last. Internal to templates/.

#include <string>
#include <vector>

#include "templates/row/own_params.h"
#include "templates/row_program/problem.h"
#include "templates/strided/strided_problem.h"

namespace tunesmith {

namespace row_program {
/// Returns an array [row, col] of a problem whose columns need not be adjacent.
strided::Array strided_array_of(const RowProgramProblem& problem, const std::string& array, DType dtype);
}  // namespace row_program

/// A program for arrays of the shape (rows, cols, inner) at any strides: each of the rows * inner positions is a row of the
/// program.
class ParsedStridedRowProgram final : public strided::StridedProblem {
 public:
  ParsedStridedRowProgram(const Op& op, const RowProgramProblem& problem);

  KeyParts key() const override;
  Cost cost() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  strided::Kernels kernels() const override;
  strided::TypedConfig default_of(const DeviceInfo& device) const override;
  SourceParts parts_of(const strided::TypedConfig& typed) const override;
  LaunchPlan plan_of(const strided::TypedConfig& typed, const DeviceInfo& device) const override;
  /// The parameters after RowParams.
  row::OwnParams own_params() const;

  const RowProgramProblem typed_;
  const row_program::Program program_;
  const row_program::Program resident_program_;  ///< for columns that stay in registers
};

}  // namespace tunesmith
