#pragma once
// cross_entropy, its gradient, and its two halves for a vocabulary that is spread over devices: the descriptor of all four.
// See tunesmith/cross_entropy.h for what they compute.

#include "templates/cross_entropy/problem.h"
#include "templates/fields_op.h"

namespace tunesmith {

class CrossEntropyOp final : public FieldsOp {
 public:
  explicit CrossEntropyOp(cross_entropy::Kind kind) : kind_(kind) {}

  std::string_view name() const noexcept override { return cross_entropy::name_of(kind_); }
  std::string_view summary() const noexcept override;
  std::vector<FieldInfo> problem_fields() const override { return cross_entropy::fields_of(kind_); }
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
  Problem verification_problem(const Problem& problem) const override;
  void fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                   std::span<const HostArray> arrays) const override;
  CheckResult check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  cross_entropy::Settings settings_of(const Problem& problem) const { return cross_entropy::parse(kind_, problem); }
  bool is_row_kernel() const noexcept { return kind_ == cross_entropy::Kind::loss || kind_ == cross_entropy::Kind::shard; }

  const cross_entropy::Kind kind_;
};

}  // namespace tunesmith
