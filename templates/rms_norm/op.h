#pragma once
// rms_norm, a row program. See tunesmith/rms_norm.h for what it computes.

#include "templates/row_program/op.h"
#include "tunesmith/rms_norm.h"

namespace tunesmith {

struct ParsedRmsNorm {
  static ParsedProblemPtr of(const Op& op, const RmsNormProblem& problem);
  static std::vector<std::string> templates() { return ParsedRowProgram::templates(); }
};

std::string_view summary_of(const RmsNormProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const RmsNormProblem& problem);
/// Throws Error(invalid_argument) for arrays that cannot be in place, and for a dtype of weight that x does not have.
void complete(RmsNormProblem& problem);

using RmsNormOp = DescribedOp<RmsNormProblem, ParsedRmsNorm>;

}  // namespace tunesmith
