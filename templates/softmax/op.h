#pragma once
// softmax, log_softmax and their gradients. tunesmith/softmax.h defines what they compute.

#include "templates/described_op.h"
#include "templates/row/row_problem.h"
#include "tunesmith/softmax.h"

namespace tunesmith {

/// All four, over adjacent columns: they differ in their shape's `logarithm` and backward().
class ParsedSoftmax final : public row::RowProblem {
 public:
  ParsedSoftmax(const Op& op, const SoftmaxProblem& problem);
  ParsedSoftmax(const Op& op, const SoftmaxBackwardProblem& problem);

  /// Returns a ParsedSoftmax, or a ParsedStridedSoftmax if columns are not adjacent.
  static ParsedProblemPtr of(const Op& op, const SoftmaxProblem& problem);
  static ParsedProblemPtr of(const Op& op, const SoftmaxBackwardProblem& problem);

  static std::vector<std::string> templates() { return row::templates("softmax"); }
  Cost cost() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  row::Kernels kernels(const row::TypedConfig& config, const row::Shape& shape) const override;
};

std::string_view summary_of(const SoftmaxProblem& problem) noexcept;
std::string_view summary_of(const SoftmaxBackwardProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const SoftmaxProblem& problem);
std::vector<FieldInfo> config_fields_of(const SoftmaxBackwardProblem& problem);
/// Throws Error(invalid_argument) for arrays that cannot be in place.
void complete(SoftmaxProblem& problem);
void complete(SoftmaxBackwardProblem& problem);

using SoftmaxOp = DescribedOp<SoftmaxProblem, ParsedSoftmax>;
using SoftmaxBackwardOp = DescribedOp<SoftmaxBackwardProblem, ParsedSoftmax>;

}  // namespace tunesmith
