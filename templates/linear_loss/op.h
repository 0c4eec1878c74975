#pragma once
// linear_loss: the losses of a linear layer's outputs, and what the products of its gradients need. The first part of a
// linear cross-entropy (tunesmith/linear_cross_entropy.h) that stores no logits.

#include "templates/described_op.h"
#include "templates/linear_loss/description.h"
#include "templates/matmul/product_based.h"

namespace tunesmith {

struct LinearLossArrays {
  const void* hidden = nullptr;
  const void* weight = nullptr;
  const void* targets = nullptr;
  const void* dloss = nullptr;
  void* loss = nullptr;
  void* lse = nullptr;
  void* z_loss = nullptr;
  void* nll = nullptr;
  void* entropy = nullptr;
  void* row_factors = nullptr;
  void* scaled_hidden = nullptr;
  void* exponentials = nullptr;
};

/// With x = softcap(scale * hidden weight^T): loss, lse and nll of every token as in CrossEntropyProblem with reduction
/// none, and, with gradient, arrays whose products are the gradients: dhidden = row_factors (exponentials weight) and
/// dweight = exponentials^T scaled_hidden. A token without a valid target has the row factor 0. Logits beyond 2^28 give
/// infinite losses, or NaN.
struct LinearLossProblem {
  using Arrays = LinearLossArrays;
  static constexpr bool internal = true;

  std::int64_t tokens = 1, hidden_size = 1, vocab_size = 1;
  DType dtype = DType::bf16;  ///< of hidden, weight, exponentials and scaled_hidden: bf16 or f32, whose range is needed
  DType target_dtype = DType::i64;  ///< i64 or i32
  bool gradient = false;            ///< writes row_factors, scaled_hidden and exponentials
  Upstream dloss = Upstream::none;  ///< upstream gradient, which row_factors include
  std::int64_t ignore_index = -100;
  double z_loss = 0, scale = 1, softcap = 0;
  bool nll = false;                                       ///< writes lse - x[target]
  bool entropy = false;                                   ///< writes -sum_c p log(p), p = exp(x - lse)
  std::optional<std::int64_t> exponentials_row_stride{};  ///< elements; absent: contiguous
  std::int64_t hidden_alignment = 16, weight_alignment = 16;

  constexpr std::string_view op() const noexcept { return "linear_loss"; }
  /// Columns of exponentials: a multiple of 8, which TMA stores. The last ones are 0.
  constexpr std::int64_t columns() const noexcept { return (vocab_size + 7) / 8 * 8; }
};

template <DescribedAs<LinearLossProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const LinearLossArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  linear_loss::describe_sizes(p, v);
  ce::describe_target_dtype(p, v);
  v.option("gradient", p.gradient, {.meaning = "write what the products of the gradients need"});
  v.option("dloss", p.dloss,
           {.meaning = "upstream gradient: none (1), one element, or one per token",
            .only_with = {p.gradient || p.dloss == Upstream::none, "gradient=1"}});
  linear_loss::describe_loss(p, v);
  v.option("nll", p.nll, {.meaning = "write lse - logit of the target"});
  v.option("entropy", p.entropy, {.meaning = "write the entropy of the probabilities"});
  linear_loss::describe_layout(p, p.exponentials_row_stride, "exponentials_row_stride", v);

  const Extent tokens = size(p.tokens);
  const auto floats = [&](std::string_view name, bool present) {
    return ArrayFacts{.name = name, .role = Role::output, .dtype = DType::f32, .shape = {tokens}, .present = present};
  };
  linear_loss::describe_inputs(p, arrays, v);
  v.array(arrays.dloss, linear_loss::dloss_array(p));
  v.array(arrays.loss, floats("loss", true));
  v.array(arrays.lse, floats("lse", true));
  v.array(arrays.z_loss, floats("z_loss", p.z_loss > 0));
  v.array(arrays.nll, floats("nll", p.nll));
  v.array(arrays.entropy, floats("entropy", p.entropy));
  v.array(arrays.row_factors, floats("row_factors", p.gradient));
  v.array(arrays.scaled_hidden, {.name = "scaled_hidden",
                                 .role = Role::output,
                                 .dtype = p.dtype,
                                 .shape = {tokens, size(p.hidden_size)},
                                 .aligned_to = 16,
                                 .present = p.gradient});
  v.array(arrays.exponentials, linear_loss::logits_array(p, "exponentials", p.exponentials_row_stride, p.gradient));
}

class ParsedLinearLoss final : public matmul::ProductBased {
 public:
  ParsedLinearLoss(const Op& op, const LinearLossProblem& problem);

  static std::vector<std::string> templates();
  KeyParts key() const override;
  Cost cost() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  matmul::ProductConfig default_of(const DeviceInfo& device) const override;
  SourceParts parts_of(const matmul::ProductConfig& config) const override;
  LaunchPlan plan_of(const matmul::ProductConfig& config, const DeviceInfo& device) const override;

  const LinearLossProblem p_;
};

inline std::string_view summary_of(const LinearLossProblem&) noexcept {
  return "losses of hidden weight^T without stored logits, and what the products of the gradients need";
}
inline std::vector<FieldInfo> config_fields_of(const LinearLossProblem&) { return matmul::config_fields(); }
inline void complete(LinearLossProblem& p) { matmul::check_tiles("tokens x vocab_size", p.tokens, p.vocab_size); }

using LinearLossOp = DescribedOp<LinearLossProblem, ParsedLinearLoss>;

}  // namespace tunesmith
