#pragma once
// cross_entropy and its gradient over a strided dimension. Internal to templates/cross_entropy.

#include "templates/cross_entropy/position_tiles.h"
#include "templates/cross_entropy/problem.h"
#include "templates/typed_problem.h"

namespace tunesmith {

/// Both: they differ in their settings' kind.
class ParsedStridedCrossEntropy final : public TypedProblem<cross_entropy::StridedLossConfig> {
 public:
  template <typename Typed>
  ParsedStridedCrossEntropy(const Op& op, const Typed& problem)
      : TypedProblem(op, problem), settings_(cross_entropy::settings_of(problem)) {}

  KeyParts key() const override;
  Cost cost() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  cross_entropy::StridedLossConfig read(const Config& config) const override;
  cross_entropy::StridedLossConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const cross_entropy::StridedLossConfig& config) const override;
  SourceParts parts_of(const cross_entropy::StridedLossConfig& config) const override;
  LaunchPlan plan_of(const cross_entropy::StridedLossConfig& config, const DeviceInfo& device) const override;

  bool is_backward() const noexcept { return settings_.kind == cross_entropy::Kind::backward; }
  const strided::Shape& shape() const noexcept { return *settings_.positions; }

  const cross_entropy::Settings settings_;
};

}  // namespace tunesmith
