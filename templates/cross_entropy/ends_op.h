#pragma once
// cross_entropy_divisor and cross_entropy_reduce: the two ends of a cross-entropy whose rows are computed in parts, as
// linear + cross-entropy does. A part runs `cross_entropy` with reduction=none; these make a mean or a sum of the parts.

#include "templates/fields_op.h"

namespace tunesmith::cross_entropy {

/// What the two have in common: one kernel of one block, and nothing to tune.
class EndsOp : public FieldsOp {
 public:
  std::vector<FieldInfo> config_fields() const override;
  Config default_config(const Problem& problem, const DeviceInfo& device) const override;
  Config complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const override;
  std::string why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const override;
  Cost cost(const Problem& problem) const override;
  Problem verification_problem(const Problem& problem) const override;
};

/// targets (rows), [weight] f32 (cols), [dloss] f32 (1) -> divisor f32 (1): the sum over valid rows of the weight of their
/// target (1 without weights); gradient_scale f32 (1): dloss / divisor, 0 where the divisor is 0. A row is valid when its
/// target is a class and not ignore_index.
class DivisorOp final : public EndsOp {
 public:
  std::string_view name() const noexcept override { return "cross_entropy_divisor"; }
  std::string_view summary() const noexcept override {
    return "divisor = sum of the weights of the rows that count, for a mean over parts of the rows";
  }
  std::vector<FieldInfo> problem_fields() const override;
  Problem normal(const Problem& problem) const override;
  std::vector<ArrayInfo> arrays(const Problem& problem) const override;
  KeyParts key(const Problem& problem) const override;
  SourceParts source_parts(const Problem& problem, const Config& config) const override;
  LaunchPlan launch_plan(const Problem& problem, const Config& config, const DeviceInfo& device) const override;
  void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                   std::span<const HostArray> arrays) const override;
  CheckResult check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const override;
};

/// losses f32 (rows), [z_losses] f32 (rows), [divisor] f32 (1) -> loss f32 (1), [z_loss] f32 (1): their sums, divided by the
/// divisor where there is one.
class ReduceOp final : public EndsOp {
 public:
  std::string_view name() const noexcept override { return "cross_entropy_reduce"; }
  std::string_view summary() const noexcept override { return "loss = sum of the rows' losses [/ divisor]"; }
  std::vector<FieldInfo> problem_fields() const override;
  Problem normal(const Problem& problem) const override;
  std::vector<ArrayInfo> arrays(const Problem& problem) const override;
  KeyParts key(const Problem& problem) const override;
  SourceParts source_parts(const Problem& problem, const Config& config) const override;
  LaunchPlan launch_plan(const Problem& problem, const Config& config, const DeviceInfo& device) const override;
  void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                   std::span<const HostArray> arrays) const override;
  CheckResult check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const override;
};

}  // namespace tunesmith::cross_entropy
