#pragma once
// linear_loss_backward: the gradient of the logits of a linear layer, from the lse of linear_loss.

#include "templates/described_op.h"
#include "templates/linear_loss/description.h"
#include "templates/matmul/product_based.h"

namespace tunesmith {

struct LinearLossBackwardArrays {
  const void* hidden = nullptr;
  const void* weight = nullptr;
  const void* targets = nullptr;
  const void* lse = nullptr;
  const void* dloss = nullptr;
  const void* dlse = nullptr;
  const void* entropy = nullptr;
  const void* dentropy = nullptr;
  void* dlogits = nullptr;
};

/// dlogits for the loss, lse and entropy of LinearLossProblem, given their upstream gradients: dhidden = dlogits weight,
/// dweight = dlogits^T hidden. dlse and dentropy count for tokens without a target, too.
struct LinearLossBackwardProblem {
  using Arrays = LinearLossBackwardArrays;
  static constexpr bool internal = true;

  std::int64_t tokens = 1, hidden_size = 1, vocab_size = 1;
  DType dtype = DType::bf16;            ///< of hidden, weight and dlogits: bf16 or f32
  DType target_dtype = DType::i64;      ///< i64 or i32
  Upstream dloss = Upstream::row;       ///< upstream gradient of the losses
  bool dlse = false, dentropy = false;  ///< upstream gradients (tokens) of lse and of the entropy
  std::int64_t ignore_index = -100;
  double z_loss = 0, scale = 1, softcap = 0;
  std::optional<std::int64_t> dlogits_row_stride{};  ///< elements; absent: contiguous
  std::int64_t hidden_alignment = 16, weight_alignment = 16;

  constexpr std::string_view op() const noexcept { return "linear_loss_backward"; }
  /// Columns of dlogits, as of LinearLossProblem.
  constexpr std::int64_t columns() const noexcept { return (vocab_size + 7) / 8 * 8; }
};

template <DescribedAs<LinearLossBackwardProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const LinearLossBackwardArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  linear_loss::describe_sizes(p, v);
  ce::describe_target_dtype(p, v);
  v.option("dloss", p.dloss, {.meaning = "upstream gradient: none (1), one element, or one per token"});
  v.option("dlse", p.dlse, {.meaning = "read the gradient with respect to lse"});
  v.option("dentropy", p.dentropy, {.meaning = "read the entropy and the gradient with respect to it"});
  linear_loss::describe_loss(p, v);
  linear_loss::describe_layout(p, p.dlogits_row_stride, "dlogits_row_stride", v);

  const Extent tokens = size(p.tokens);
  const auto floats = [&](std::string_view name, const bool* enabled_by) {
    const bool present = enabled_by == nullptr || *enabled_by;
    return ArrayFacts{.name = name, .dtype = DType::f32, .shape = {tokens}, .present = present, .enabled_by = enabled_by};
  };
  linear_loss::describe_inputs(p, arrays, v);
  v.array(arrays.lse, floats("lse", nullptr));
  v.array(arrays.dloss, linear_loss::dloss_array(p));
  v.array(arrays.dlse, floats("dlse", &p.dlse));
  v.array(arrays.entropy, floats("entropy", &p.dentropy));
  v.array(arrays.dentropy, floats("dentropy", &p.dentropy));
  v.array(arrays.dlogits, linear_loss::logits_array(p, "dlogits", p.dlogits_row_stride, true));
}

class ParsedLinearLossBackward final : public matmul::ProductBased {
 public:
  ParsedLinearLossBackward(const Op& op, const LinearLossBackwardProblem& problem);

  static std::vector<std::string> templates();
  KeyParts key() const override;
  Cost cost() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  SourceParts parts_of(const matmul::ProductConfig& config) const override;
  LaunchPlan plan_of(const matmul::ProductConfig& config, const DeviceInfo& device) const override;

  const LinearLossBackwardProblem p_;
};

inline std::string_view summary_of(const LinearLossBackwardProblem&) noexcept {
  return "gradient of the logits of a linear layer, from the lse of linear_loss";
}
inline std::vector<FieldInfo> config_fields_of(const LinearLossBackwardProblem&) { return matmul::config_fields(); }
inline void complete(LinearLossBackwardProblem& p) { matmul::check_tiles("tokens x vocab_size", p.tokens, p.vocab_size); }

using LinearLossBackwardOp = DescribedOp<LinearLossBackwardProblem, ParsedLinearLossBackward>;

}  // namespace tunesmith
