#pragma once
// softmax, log_softmax and their gradients over a strided dimension. Internal to templates/softmax.

#include "templates/row/shape.h"
#include "templates/strided/strided_problem.h"
#include "tunesmith/softmax.h"

namespace tunesmith {

class ParsedStridedSoftmax final : public strided::StridedProblem {
 public:
  ParsedStridedSoftmax(const Op& op, const SoftmaxProblem& problem);
  ParsedStridedSoftmax(const Op& op, const SoftmaxBackwardProblem& problem);

  Cost cost() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  strided::Kernels kernels() const override;
  /// Returns the rows of the reference, one for each position.
  row::Shape rows() const;
};

/// Checks across fields. Throws Error(invalid_argument) for options that need adjacent columns, for outputs that overlap
/// themselves and for arrays that cannot be in place.
void complete_strided(SoftmaxProblem& problem);
void complete_strided(SoftmaxBackwardProblem& problem);

}  // namespace tunesmith
