#pragma once
// rms_norm. See tunesmith/rms_norm.h for what it computes.

#include "templates/described_op.h"
#include "templates/row/row_problem.h"
#include "tunesmith/rms_norm.h"

namespace tunesmith {

class ParsedRmsNorm final : public row::RowProblem {
 public:
  ParsedRmsNorm(const Op& op, const RmsNormProblem& problem);

  static std::vector<std::string> templates() { return row::templates("rms_norm"); }
  Cost cost() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  row::Kernels kernels(const row::TypedConfig& config, const row::Shape& shape) const override;

  const RmsNormProblem typed_;
};

std::string_view summary_of(const RmsNormProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const RmsNormProblem& problem);
/// Throws Error(invalid_argument) for arrays that cannot be in place, and for a dtype of weight that x does not have.
void complete(RmsNormProblem& problem);

using RmsNormOp = DescribedOp<RmsNormProblem, ParsedRmsNorm>;

}  // namespace tunesmith
