#pragma once
// linear_loss: the losses of a linear layer's outputs, and what the products of its gradients need. The first part of a
// linear cross-entropy (tunesmith/linear_cross_entropy.h) that stores no logits.

#include "templates/described_op.h"
#include "templates/matmul/product.h"
#include "templates/typed_problem.h"
#include "tunesmith/cross_entropy.h"

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
  void* row_factors = nullptr;
  void* scaled_hidden = nullptr;
  void* exponentials = nullptr;
};

/// With x = softcap(scale * hidden weight^T): loss, lse and nll of every token as in CrossEntropyProblem with reduction
/// none, and, with gradient, arrays whose products are the gradients: dhidden = row_factors (exponentials weight) and
/// dweight = exponentials^T scaled_hidden. A token without a valid target has the row factor 0.
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
  std::optional<std::int64_t> exponentials_row_stride{};  ///< elements; absent: contiguous
  std::int64_t hidden_alignment = 16, weight_alignment = 16;

  constexpr std::string_view op() const noexcept { return "linear_loss"; }
  /// Columns of exponentials: a multiple of 8, which TMA stores. The last ones are 0.
  constexpr std::int64_t columns() const noexcept { return (vocab_size + 7) / 8 * 8; }
};

template <DescribedAs<LinearLossProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const LinearLossArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  constexpr std::int64_t most = matmul::ProductProblem::most;
  const auto extent = [&](std::string_view name, auto& field, std::string_view meaning, std::int64_t largest) {
    v.field(name, field, {.meaning = meaning, .range = {1, largest}, .required = true, .runtime = true});
  };
  extent("tokens", p.tokens, "rows of hidden", most);
  extent("hidden_size", p.hidden_size, "columns of hidden and weight", most);
  extent("vocab_size", p.vocab_size, "rows of weight, the classes", most - 7);
  v.field("dtype", p.dtype, {.meaning = "element type of hidden and weight", .choices = one_of(DType::f32, DType::bf16)});
  ce::describe_target_dtype(p, v);
  v.option("gradient", p.gradient, {.meaning = "write what the products of the gradients need"});
  v.option("dloss", p.dloss,
           {.meaning = "upstream gradient: none (1), one element, or one per token",
            .only_with = {p.gradient || p.dloss == Upstream::none, "gradient=1"}});
  v.option("ignore_index", p.ignore_index, {.meaning = "target of tokens that are skipped"});
  ce::describe_z_loss(p, v);
  ce::describe_logit_options(p, v);
  v.option("nll", p.nll, {.meaning = "write lse - logit of the target"});
  {
    FieldFacts facts;
    facts.meaning = "elements from one row of exponentials to the next";
    facts.range = {p.columns(), std::int64_t{1} << 40};
    facts.follows = {"vocab_size rounded up to a multiple of 8", p.columns()};
    facts.runtime = true;
    v.field("exponentials_row_stride", p.exponentials_row_stride, facts);
  }
  v.field("hidden_alignment", p.hidden_alignment,
          alignment_facts("bytes that the address of hidden is a multiple of", p.dtype));
  v.field("weight_alignment", p.weight_alignment,
          alignment_facts("bytes that the address of weight is a multiple of", p.dtype));

  const Extent tokens = size(p.tokens), hidden_size = size(p.hidden_size);
  const auto floats = [&](std::string_view name, Role role, bool present) {
    return ArrayFacts{.name = name, .role = role, .dtype = DType::f32, .shape = {tokens}, .present = present};
  };
  v.array(arrays.hidden,
          {.name = "hidden", .dtype = p.dtype, .shape = {tokens, hidden_size}, .alignment = &p.hidden_alignment});
  v.array(
      arrays.weight,
      {.name = "weight", .dtype = p.dtype, .shape = {size(p.vocab_size), hidden_size}, .alignment = &p.weight_alignment});
  v.array(arrays.targets, {.name = "targets", .dtype = p.target_dtype, .shape = {tokens}});
  v.array(arrays.dloss, {.name = "dloss",
                         .dtype = DType::f32,
                         .shape = {p.dloss == Upstream::row ? tokens : fixed(1)},
                         .present = p.dloss != Upstream::none});
  v.array(arrays.loss, floats("loss", Role::output, true));
  v.array(arrays.lse, floats("lse", Role::output, true));
  v.array(arrays.z_loss, floats("z_loss", Role::output, p.z_loss > 0));
  v.array(arrays.nll, floats("nll", Role::output, p.nll));
  v.array(arrays.row_factors, floats("row_factors", Role::output, p.gradient));
  v.array(arrays.scaled_hidden, {.name = "scaled_hidden",
                                 .role = Role::output,
                                 .dtype = p.dtype,
                                 .shape = {tokens, hidden_size},
                                 .aligned_to = 16,
                                 .present = p.gradient});
  v.array(arrays.exponentials, {.name = "exponentials",
                                .role = Role::output,
                                .dtype = p.dtype,
                                .shape = {tokens, fixed(p.columns())},
                                .strides = {p.exponentials_row_stride.value_or(p.columns()), 1},
                                .aligned_to = 16,
                                .present = p.gradient});
}

class ParsedLinearLoss final : public TypedProblem<matmul::ProductConfig> {
 public:
  ParsedLinearLoss(const Op& op, const LinearLossProblem& problem);

  static std::vector<std::string> templates();
  KeyParts key() const override;
  Cost cost() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override {
    return matmul::complete_config(product_, device, partial);
  }
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override {
    return matmul::search_space(product_, device, effort);
  }
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  matmul::ProductConfig read(const Config& config) const override { return matmul::ProductConfig::parse(config); }
  matmul::ProductConfig default_of(const DeviceInfo& device) const override {
    return matmul::default_config(product_, device);
  }
  std::string why_invalid_of(const DeviceInfo& device, const matmul::ProductConfig& config) const override {
    return matmul::why_invalid(config, product_, device);
  }
  SourceParts parts_of(const matmul::ProductConfig& config) const override;
  LaunchPlan plan_of(const matmul::ProductConfig& config, const DeviceInfo& device) const override;

  const LinearLossProblem p_;
  const matmul::ProductProblem product_;  ///< the logits, with the columns of exponentials
};

inline std::string_view summary_of(const LinearLossProblem&) noexcept {
  return "losses of hidden weight^T without stored logits, and what the products of the gradients need";
}
inline std::vector<FieldInfo> config_fields_of(const LinearLossProblem&) { return matmul::config_fields(); }
inline void complete(LinearLossProblem&) noexcept {}

using LinearLossOp = DescribedOp<LinearLossProblem, ParsedLinearLoss>;

}  // namespace tunesmith
