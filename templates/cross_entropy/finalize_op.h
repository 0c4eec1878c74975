#pragma once
// cross_entropy_divisor and cross_entropy_reduce run before and after a cross-entropy that is computed in chunks of rows, as
// in linear_cross_entropy: chunks run `cross_entropy` with reduction none, and these two compute its mean or sum.

#include "templates/cross_entropy/one_block.h"
#include "templates/described_op.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith::cross_entropy {

struct DivisorArrays {
  const void* targets = nullptr;
  const void* weight = nullptr;
  const void* dloss = nullptr;
  void* divisor = nullptr;
  void* gradient_scale = nullptr;
  void* scaled_weight = nullptr;
};

/// divisor is the sum of the target weights over valid rows (weight 1 without weights); gradient_scale is dloss / divisor,
/// or 0 if the divisor is 0. A row is valid if its target is a class and not ignore_index. With scaled_weight, divisor is
/// the number of valid rows, and the array scaled_weight receives weight * (number of valid rows) / (sum of their weights).
struct DivisorProblem {
  using Arrays = DivisorArrays;
  static constexpr bool internal = true;

  std::int64_t rows = 0;
  std::int64_t cols = 1;
  DType target_dtype = DType::i64;
  std::int64_t ignore_index = -100;
  bool weight = false;
  Upstream dloss = Upstream::none;
  bool scaled_weight = false;

  constexpr std::string_view op() const noexcept { return "cross_entropy_divisor"; }
};

template <DescribedAs<DivisorProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const DivisorArrays& arrays, Visitor& v) {
  v.field("rows", p.rows, {.meaning = "number of targets", .range = {0, max_rows_of_a_sum}, .required = true});
  v.field("cols", p.cols, {.meaning = "number of classes", .range = {1, max_cols}, .required = true});
  describe_target_dtype(p, v);
  v.option("ignore_index", p.ignore_index, {.meaning = "target of rows that are skipped"});
  describe_weight(p, v);
  v.option("dloss", p.dloss,
           {.meaning = "upstream gradient: none (1) or a scalar", .choices = one_of(Upstream::none, Upstream::scalar)});
  v.option("scaled_weight", p.scaled_weight,
           {.meaning = "writes the weights scaled to a mean of 1 over the rows; divides by the number of rows",
            .only_with = {p.weight, "weight=1"}});
  const auto scalar = [](std::string_view name, Role role, std::string_view meaning) {
    return ArrayFacts{.name = name, .role = role, .dtype = DType::f32, .shape = {fixed(1)}, .meaning = meaning};
  };
  v.array(arrays.targets, targets_array(p));
  v.array(arrays.weight, weight_array(p));
  ArrayFacts dloss = scalar("dloss", Role::input, "upstream gradient");
  dloss.present = p.dloss == Upstream::scalar;
  v.array(arrays.dloss, dloss);
  v.array(arrays.divisor, scalar("divisor", Role::output, "sum of the weights of the rows that count"));
  v.array(arrays.gradient_scale, scalar("gradient_scale", Role::output, "dloss / divisor"));
  v.array(arrays.scaled_weight, ArrayFacts{.name = "scaled_weight",
                                           .role = Role::output,
                                           .dtype = DType::f32,
                                           .shape = {size(p.cols)},
                                           .present = p.scaled_weight,
                                           .meaning = "weights with a mean of 1 over the rows"});
}

struct ReduceArrays {
  const void* losses = nullptr;
  const void* z_losses = nullptr;
  const void* divisor = nullptr;
  void* loss = nullptr;
  void* z_loss = nullptr;
};

/// loss and z_loss are the sums of losses and z_losses, divided by the divisor if there is one.
struct ReduceProblem {
  using Arrays = ReduceArrays;
  static constexpr bool internal = true;

  std::int64_t rows = 0;
  bool z_losses = false;
  bool divisor = false;

  constexpr std::string_view op() const noexcept { return "cross_entropy_reduce"; }
};

template <DescribedAs<ReduceProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const ReduceArrays& arrays, Visitor& v) {
  v.field("rows", p.rows, {.meaning = "number of losses", .range = {0, max_rows_of_a_sum}, .required = true});
  v.option("z_losses", p.z_losses, {.meaning = "a second array of losses is summed too"});
  v.option("divisor", p.divisor, {.meaning = "the sums are divided by the value of an array"});
  const auto floats = [](std::string_view name, Role role, const Extent& extent, bool present) {
    return ArrayFacts{.name = name, .role = role, .dtype = DType::f32, .shape = {extent}, .present = present};
  };
  v.array(arrays.losses, floats("losses", Role::input, size(p.rows), true));
  v.array(arrays.z_losses, floats("z_losses", Role::input, size(p.rows), p.z_losses));
  v.array(arrays.divisor, floats("divisor", Role::input, fixed(1), p.divisor));
  v.array(arrays.loss, floats("loss", Role::output, fixed(1), true));
  v.array(arrays.z_loss, floats("z_loss", Role::output, fixed(1), p.z_losses));
}

class ParsedDivisor final : public OneBlockProblem {
 public:
  ParsedDivisor(const Op& op, const DivisorProblem& problem) : OneBlockProblem(op, problem), p_(problem) {}

  KeyParts key() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  SourceParts parts_of(const OneBlockConfig& config) const override;
  LaunchPlan plan_of(const OneBlockConfig& config, const DeviceInfo& device) const override;

  const DivisorProblem p_;
};

class ParsedReduce final : public OneBlockProblem {
 public:
  ParsedReduce(const Op& op, const ReduceProblem& problem) : OneBlockProblem(op, problem), p_(problem) {}

  KeyParts key() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  SourceParts parts_of(const OneBlockConfig& config) const override;
  LaunchPlan plan_of(const OneBlockConfig& config, const DeviceInfo& device) const override;

  const ReduceProblem p_;
};

inline std::string_view summary_of(const DivisorProblem&) noexcept {
  return "divisor = sum of the weights of the rows that count, for a mean over parts of the rows";
}
inline std::string_view summary_of(const ReduceProblem&) noexcept { return "loss = sum of the rows' losses [/ divisor]"; }
inline std::vector<FieldInfo> config_fields_of(const DivisorProblem&) { return one_block::config_fields(); }
inline std::vector<FieldInfo> config_fields_of(const ReduceProblem&) { return one_block::config_fields(); }
inline void complete(DivisorProblem&) noexcept {}
inline void complete(ReduceProblem&) noexcept {}

using DivisorOp = DescribedOp<DivisorProblem, ParsedDivisor>;
using ReduceOp = DescribedOp<ReduceProblem, ParsedReduce>;

}  // namespace tunesmith::cross_entropy
