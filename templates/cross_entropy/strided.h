#pragma once
// cross_entropy and its gradient over a strided dimension. Internal to templates/cross_entropy.

#include "templates/cross_entropy/problem.h"

namespace tunesmith {

/// Both: they differ in their settings' kind.
class ParsedStridedCrossEntropy final : public ParsedProblem {
 public:
  template <typename Typed>
  ParsedStridedCrossEntropy(const Op& op, const Typed& problem)
      : ParsedProblem(op, problem), settings_(cross_entropy::settings_of(problem)) {}

  KeyParts key() const override;
  Cost cost() const override;
  Config default_config(const DeviceInfo& device) const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  std::string why_invalid(const DeviceInfo& device, const Config& config) const override;
  SourceParts source_parts(const Config& config) const override;
  LaunchPlan launch_plan(const Config& config, const DeviceInfo& device) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  bool is_backward() const noexcept { return settings_.kind == cross_entropy::Kind::backward; }
  const strided::Shape& shape() const noexcept { return *settings_.positions; }

  const cross_entropy::Settings settings_;
};

}  // namespace tunesmith
