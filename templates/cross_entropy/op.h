#pragma once
// cross_entropy, its gradient, and both operations for a sharded vocabulary. tunesmith/cross_entropy.h defines what they
// compute.

#include "templates/cross_entropy/config.h"
#include "templates/cross_entropy/problem.h"
#include "templates/described_op.h"
#include "templates/row/source.h"
#include "templates/typed_problem.h"

namespace tunesmith {

/// All four: they differ in their settings' kind.
class ParsedCrossEntropy final : public TypedProblem<cross_entropy::LossConfig> {
 public:
  template <typename Typed>
  ParsedCrossEntropy(const Op& op, const Typed& problem)
      : TypedProblem(op, problem), settings_(cross_entropy::settings_of(problem)) {}

  /// Returns a ParsedCrossEntropy, or a ParsedStridedCrossEntropy if columns are not adjacent.
  static ParsedProblemPtr of(const Op& op, const CrossEntropyProblem& problem);
  static ParsedProblemPtr of(const Op& op, const CrossEntropyBackwardProblem& problem);
  static ParsedProblemPtr of(const Op& op, const CrossEntropyShardProblem& problem);
  static ParsedProblemPtr of(const Op& op, const CrossEntropyCombineProblem& problem);

  static std::vector<std::string> templates() { return row::templates("cross_entropy"); }
  KeyParts key() const override;
  Cost cost() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  std::optional<Config> capacity_config(const DeviceInfo& device) const override;
  std::int64_t capacity() const noexcept override { return is_row_kernel() ? settings_.shape.capacity() : 0; }
  std::string capacity_class() const override;
  std::vector<ParsedProblemPtr> in_buckets(std::int64_t least, std::int64_t most) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  cross_entropy::LossConfig read(const Config& config) const override;
  cross_entropy::LossConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const cross_entropy::LossConfig& config) const override;
  SourceParts parts_of(const cross_entropy::LossConfig& config) const override;
  LaunchPlan plan_of(const cross_entropy::LossConfig& config, const DeviceInfo& device) const override;

  bool is_row_kernel() const noexcept {
    return settings_.kind == cross_entropy::Kind::loss || settings_.kind == cross_entropy::Kind::shard;
  }

  const cross_entropy::Settings settings_;
};

std::string_view summary_of(const CrossEntropyProblem&) noexcept;
std::string_view summary_of(const CrossEntropyBackwardProblem&) noexcept;
std::string_view summary_of(const CrossEntropyShardProblem&) noexcept;
std::string_view summary_of(const CrossEntropyCombineProblem&) noexcept;
std::vector<FieldInfo> config_fields_of(const CrossEntropyProblem&);
std::vector<FieldInfo> config_fields_of(const CrossEntropyBackwardProblem&);
std::vector<FieldInfo> config_fields_of(const CrossEntropyShardProblem&);
std::vector<FieldInfo> config_fields_of(const CrossEntropyCombineProblem&);
/// Throw Error(invalid_argument) for contradicting fields.
void complete(CrossEntropyProblem& problem);
void complete(CrossEntropyBackwardProblem& problem);
void complete(CrossEntropyShardProblem& problem);
void complete(CrossEntropyCombineProblem& problem);

template <typename Typed>
using CrossEntropyOp = DescribedOp<Typed, ParsedCrossEntropy>;

}  // namespace tunesmith
