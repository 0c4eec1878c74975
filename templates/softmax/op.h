#pragma once
// softmax, log_softmax and their gradients: the descriptor of all four. See tunesmith/softmax.h for what they compute.

#include "templates/op.h"
#include "templates/row/shape.h"

namespace tunesmith {

class SoftmaxOp final : public Op {
 public:
  SoftmaxOp(bool logarithm, bool backward) : logarithm_(logarithm), backward_(backward) {}

  std::string_view name() const noexcept override;
  std::string_view summary() const noexcept override;
  std::vector<FieldInfo> problem_fields() const override;
  std::vector<FieldInfo> config_fields() const override;
  Problem normalize(const Problem& problem) const override;
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
  /// Of a normalized problem.
  row::Shape shape_of(const Problem& problem) const;
  /// Names of the arrays of rows, inputs first.
  std::vector<std::string_view> row_arrays() const;

  const bool logarithm_, backward_;
};

}  // namespace tunesmith
