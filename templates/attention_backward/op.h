#pragma once
// attention_backward. See tunesmith/attention_backward.h for what it computes.

#include "templates/attention_backward/search/config.h"
#include "templates/attention_backward/settings.h"
#include "templates/described_op.h"
#include "templates/typed_problem.h"
#include "tunesmith/attention_backward.h"

namespace tunesmith {

class ParsedAttentionBackward final : public TypedProblem<attention_backward::TypedConfig> {
 public:
  ParsedAttentionBackward(const Op& op, const AttentionBackwardProblem& problem);

  static std::vector<std::string> templates() { return {"attention_backward"}; }
  KeyParts key() const override;
  Cost cost() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem tuned_as() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  void complete_inputs(std::span<const HostArray> arrays, const Evaluate& evaluate) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;
  CheckResult check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                            const Evaluate& evaluate) const override;

 private:
  attention_backward::TypedConfig read(const Config& config) const override {
    return attention_backward::TypedConfig::parse(config);
  }
  attention_backward::TypedConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const attention_backward::TypedConfig& config) const override;
  SourceParts parts_of(const attention_backward::TypedConfig& typed) const override;
  LaunchPlan plan_of(const attention_backward::TypedConfig& typed, const DeviceInfo& device) const override;

  const AttentionBackwardProblem typed_;
  const attention_backward::Settings settings_;
};

std::string_view summary_of(const AttentionBackwardProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const AttentionBackwardProblem& problem);
/// Throws Error(invalid_argument) for fields that contradict each other and for a score_mod that cannot be differentiated;
/// adds the declarations of the user sources to aux.
void complete(AttentionBackwardProblem& problem);

using AttentionBackwardOp = DescribedOp<AttentionBackwardProblem, ParsedAttentionBackward>;

}  // namespace tunesmith
