#pragma once
// attention. See tunesmith/attention.h for what it computes.

#include "templates/attention/search/config.h"
#include "templates/attention/settings.h"
#include "templates/described_op.h"
#include "templates/typed_problem.h"
#include "tunesmith/attention.h"

namespace tunesmith {

class ParsedAttention final : public TypedProblem<attention::TypedConfig> {
 public:
  ParsedAttention(const Op& op, const AttentionProblem& problem);

  static std::vector<std::string> templates() { return {"attention"}; }
  KeyParts key() const override;
  Cost cost() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem tuned_as() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;
  CheckResult check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                            const Evaluate& evaluate) const override;

 private:
  attention::TypedConfig read(const Config& config) const override { return attention::TypedConfig::parse(config); }
  attention::TypedConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const attention::TypedConfig& config) const override;
  SourceParts parts_of(const attention::TypedConfig& typed) const override;
  LaunchPlan plan_of(const attention::TypedConfig& typed, const DeviceInfo& device) const override;

  const AttentionProblem typed_;
  const attention::Settings settings_;
};

std::string_view summary_of(const AttentionProblem& problem) noexcept;
std::vector<FieldInfo> config_fields_of(const AttentionProblem& problem);
/// Throws Error(invalid_argument) for fields that contradict each other; adds the declarations of the user sources to aux.
void complete(AttentionProblem& problem);

using AttentionOp = DescribedOp<AttentionProblem, ParsedAttention>;

}  // namespace tunesmith
