#pragma once
// attention. See tunesmith/attention.h for what it computes.

#include "templates/attention/settings.h"
#include "templates/described_op.h"
#include "tunesmith/attention.h"

namespace tunesmith {

class ParsedAttention final : public ParsedProblem {
 public:
  ParsedAttention(const Op& op, const AttentionProblem& problem);

  static std::vector<std::string> templates() { return {"attention"}; }
  KeyParts key() const override;
  Cost cost() const override;
  Config default_config(const DeviceInfo& device) const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  std::string why_invalid(const DeviceInfo& device, const Config& config) const override;
  SourceParts source_parts(const Config& config) const override;
  LaunchPlan launch_plan(const Config& config, const DeviceInfo& device) const override;
  Problem tuned_as() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;
  CheckResult check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                            const Evaluate& evaluate) const override;

 private:
  const AttentionProblem typed_;
  const attention::Settings settings_;
};

std::string_view summary_of(const AttentionProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const AttentionProblem& problem);
/// Throws Error(invalid_argument) for fields that contradict each other; adds the declarations of the user sources to aux.
void complete(AttentionProblem& problem);

using AttentionOp = DescribedOp<AttentionProblem, ParsedAttention>;

}  // namespace tunesmith
