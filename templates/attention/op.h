#pragma once
// attention: the descriptor. See tunesmith/attention.h for what it computes.

#include "templates/fields_op.h"

namespace tunesmith {

class AttentionOp final : public FieldsOp {
 public:
  std::string_view name() const noexcept override { return "attention"; }
  std::string_view summary() const noexcept override {
    return "o[b,i,h,:] = softmax(scale * q[b,i,h,:] . k[b,:,h,:]) v[b,:,h,:], and its lse";
  }
  std::vector<FieldInfo> problem_fields() const override;
  std::vector<FieldInfo> config_fields() const override;
  Problem normal(const Problem& problem) const override;
  std::vector<ArrayInfo> arrays(const Problem& problem) const override;
  KeyParts key(const Problem& problem) const override;
  Cost cost(const Problem& problem) const override;
  Config default_config(const Problem& problem, const DeviceInfo& device) const override;
  Config complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const override;
  std::string why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const override;
  SourceParts source_parts(const Problem& problem, const Config& config) const override;
  LaunchPlan launch_plan(const Problem& problem, const Config& config, const DeviceInfo& device) const override;
  Problem tuned_as(const Problem& problem) const override;
  Problem verification_problem(const Problem& problem) const override;
  void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                   std::span<const HostArray> arrays) const override;
  CheckResult check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const override;
  CheckResult judge(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows,
                    const Evaluate& evaluate) const override;
};

}  // namespace tunesmith
