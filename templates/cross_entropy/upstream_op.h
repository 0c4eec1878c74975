#pragma once
// cross_entropy_upstream runs before the backward pass of a cross-entropy that is computed in chunks of rows, if there is a
// gradient of lse: with upstream gradients of magnitude 1 at most, the 16-bit gradient of the logits neither overflows nor
// underflows. The matrix products multiply with the factor.

#include "templates/cross_entropy/one_block.h"
#include "templates/described_op.h"

namespace tunesmith::cross_entropy {

struct UpstreamArrays {
  const void* dloss = nullptr;
  const void* dlse = nullptr;
  void* factor = nullptr;
  void* scaled_dloss = nullptr;
  void* scaled_dlse = nullptr;
};

/// factor is the largest magnitude in dloss and dlse, or 1 if that is 0 or not finite; scaled_dloss and scaled_dlse are
/// dloss and dlse divided by it.
struct UpstreamProblem {
  using Arrays = UpstreamArrays;
  static constexpr bool internal = true;

  std::int64_t rows = 0;
  Upstream dloss = Upstream::scalar;

  constexpr std::string_view op() const noexcept { return "cross_entropy_upstream"; }
};

template <DescribedAs<UpstreamProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const UpstreamArrays& arrays, Visitor& v) {
  v.field("rows", p.rows, {.meaning = "number of rows", .range = {0, max_rows_of_a_sum}, .required = true});
  v.option("dloss", p.dloss,
           {.meaning = "upstream gradient of the loss: a scalar or one per row",
            .choices = one_of(Upstream::scalar, Upstream::row)});
  const Extent rows = size(p.rows), losses = p.dloss == Upstream::row ? rows : fixed(1);
  const auto floats = [](std::string_view name, Role role, const Extent& extent) {
    return ArrayFacts{.name = name, .role = role, .dtype = DType::f32, .shape = {extent}};
  };
  v.array(arrays.dloss, floats("dloss", Role::input, losses));
  v.array(arrays.dlse, floats("dlse", Role::input, rows));
  v.array(arrays.factor, floats("factor", Role::output, fixed(1)));
  v.array(arrays.scaled_dloss, floats("scaled_dloss", Role::output, losses));
  v.array(arrays.scaled_dlse, floats("scaled_dlse", Role::output, rows));
}

class ParsedUpstream final : public OneBlockProblem {
 public:
  ParsedUpstream(const Op& op, const UpstreamProblem& problem) : OneBlockProblem(op, problem), p_(problem) {}

  KeyParts key() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  SourceParts parts_of(const OneBlockConfig& config) const override;
  LaunchPlan plan_of(const OneBlockConfig& config, const DeviceInfo& device) const override;

  const UpstreamProblem p_;
};

inline std::string_view summary_of(const UpstreamProblem&) noexcept {
  return "dloss and dlse divided by their largest magnitude, for a gradient in 16 bits";
}
inline std::vector<FieldInfo> config_fields_of(const UpstreamProblem&) { return one_block::config_fields(); }
inline void complete(UpstreamProblem&) noexcept {}

using UpstreamOp = DescribedOp<UpstreamProblem, ParsedUpstream>;

}  // namespace tunesmith::cross_entropy
