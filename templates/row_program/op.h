#pragma once
// row_program. See tunesmith/row_program.h for what it computes.

#include "templates/described_op.h"
#include "templates/row/row_problem.h"
#include "templates/row_program/problem.h"
#include "tunesmith/row_program.h"

namespace tunesmith {

class ParsedRowProgram final : public row::RowProblem {
 public:
  /// Returns a ParsedStridedRowProgram for a problem whose columns are not adjacent.
  static ParsedProblemPtr of(const Op& op, const RowProgramProblem& problem);
  ParsedRowProgram(const Op& op, const RowProgramProblem& problem) : ParsedRowProgram(op, problem, problem) {}
  /// Makes a problem of another operation that is a program: `typed` describes it, and its arrays have the names of the
  /// program's.
  template <typename Typed>
  ParsedRowProgram(const Op& op, const Typed& typed, const RowProgramProblem& problem)
      : ParsedRowProgram(op, typed, problem, row_program::program_of(problem)) {}

  static std::vector<std::string> templates() {
    return {"device/group_of_cluster.cuh", "row/double_functions.cuh", "row/schedules", "strided"};
  }
  KeyParts key() const override;
  Cost cost() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  template <typename Typed>
  ParsedRowProgram(const Op& op, const Typed& typed, const RowProgramProblem& problem, row_program::Program program)
      : RowProblem(op, typed, row_program::shape_of(problem, program), row_program::params_of(problem, program),
                   row_program::problem_class_of(problem, program)),
        typed_(problem),
        program_(std::move(program)) {}
  /// Returns the arrays in the order of the program's declarations.
  std::vector<HostArray> in_program_order(std::span<const HostArray> arrays) const;
  row::Kernels kernels(const row::TypedConfig& config, const row::Shape& shape) const override;
  SourceParts parts_of(const row::TypedConfig& config) const override;
  LaunchPlan plan_of(const row::TypedConfig& config, const DeviceInfo& device) const override;

  const RowProgramProblem typed_;
  const row_program::Program program_;
};

std::string_view summary_of(const RowProgramProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const RowProgramProblem& problem);
/// Throws Error(invalid_argument | unsupported) for fields that contradict each other or the program.
void complete(RowProgramProblem& problem);

/// Implement ParsedProblem::fill_inputs and check. `summed`: the program adds up columns over the rows.
void fill_row_program_inputs(const RowProgramProblem& problem, bool summed, std::uint64_t seed, InputKind kind,
                             std::span<const HostArray> arrays);
CheckResult check_row_program(const RowProgramProblem& problem, const row_program::Program& program,
                              std::span<const HostArray> arrays, std::int64_t max_rows);

using RowProgramOp = DescribedOp<RowProgramProblem, ParsedRowProgram>;

}  // namespace tunesmith
