#pragma once
// Scaled dot-product attention (backward) as a typed problem.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tunesmith/attention.h"
#include "tunesmith/attention_aux_gradients.h"

namespace tunesmith {

/// Addresses in device memory, in the order of a plan. Non-null alibi_slopes, sinks, cu_seqlens, rng_state, dlse, dsinks and
/// dslopes enable their options in a one-shot call. Shapes are for the layout bshd; bhsd swaps sequence and heads.
struct AttentionBackwardArrays {
  const void* q = nullptr;  ///< as in AttentionArrays, down to rng_state
  const void* k = nullptr;
  const void* v = nullptr;
  const float* alibi_slopes = nullptr;
  const float* sinks = nullptr;
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_kv = nullptr;
  std::array<const void*, 8> aux{};
  std::int32_t* block_mask = nullptr;
  const std::int64_t* rng_state = nullptr;
  const void* o = nullptr;      ///< as the forward pass wrote it: (batch, seq_q, heads, head_dim_v)
  const float* lse = nullptr;   ///< likewise: (batch, heads, seq_q); varlen: (heads, total_q)
  const void* dout = nullptr;   ///< gradient of o, of its shape
  const float* dlse = nullptr;  ///< gradient of lse, of its shape
  void* dq = nullptr;           ///< of q's shape
  void* dk = nullptr;           ///< of k's shape
  void* dv = nullptr;           ///< of v's shape
  float* dsinks = nullptr;      ///< (heads)
  float* dslopes = nullptr;     ///< (heads)
  /// Gradients of the arrays in AttentionBackwardProblem::daux, of their lengths, in the order in which aux has the arrays.
  std::array<float*, 8> daux{};
};

/// The gradients of attention from the gradients of its outputs. With s, o and lse as AttentionProblem defines them:
///
///   p[i,j]   = exp(s[i,j] - lse[i])
///   delta[i] = dot(o[i,:], dout[i,:]) - dlse[i]
///   ds[i,j]  = p[i,j] * (dot(dout[i,:], v[j,:]) - delta[i])
///   dx[i,j]  = ds[i,j] * (1 - tanh(x / softcap)^2)            x = scale * dot(q[i,:], k[j,:]); without softcap: ds
///
/// With dropout, p is keep / (1 - dropout) times as large in dv, and dot(dout, v) in ds, with the mask of the forward pass.
///
///   dq[i,:]  = scale * sum_j dx[i,j] * k[j,:]                 over the visible keys
///   dk[j,:]  = scale * sum_i dx[i,j] * q[i,:]                 over the queries of all heads that share the key
///   dv[j,:]  = sum_i p[i,j] * dout[i,:]                       likewise
///   dsinks[h]  = -sum_i exp(sinks[h] - lse[i]) * delta[i]     over batch entries and queries
///   dslopes[h] = -sum_ij ds[i,j] * |i + d - j|                likewise, over the visible keys
///   daux_a[e]  = sum_bhij ds[i,j] * (derivative of score_mod by aux.a[e])    over all visible pairs, for each array a of
///   `daux`
///
/// Fields of the forward problem keep their meaning; o and lse are its outputs for the same inputs. The gradients are
/// written; with `accumulate` each of them, dsinks, dslopes and daux included, is added to what its array holds. The sum is
/// rounded to the array's dtype; wgmma also rounds the gradients before the addition, as autograd does.
///
/// Special cases
///   no visible key              dq is 0; a key that no query sees has dk = dv = 0
///   NaN or inf in any input     reaches every gradient of a tile that reads it, even where the pair is masked
///   varlen                      sequences do not affect each other. cu_seqlens may end before total_q and total_kv: rows
///                               after the last sequence affect no gradient, and theirs are not written
///   mask_mod                    as in the forward pass; block_mask=read takes the block mask that block_mask=write wrote
///   score_mod                   is differentiated, as below
///
/// With score_mod, dx also has the factor of its derivative by the score. The kernels compute it over dual numbers: the
/// source is compiled a second time with another `float`, of a value and a derivative. Conversions to integers, comparisons
/// and rounding functions have derivative 0, and fabsf at 0, too; fminf and fmaxf of equal numbers have the mean. Sources
/// that handle the bits of a float, use double or point to arrays of float other than their own cannot be differentiated,
/// which is an error; score_mod_grad then gives the derivative. See docs/score-mod.md.
///
/// daux names arrays of float32, float16 or bfloat16 that score_mod reads; their gradients are float32. A kernel of its own
/// computes S and dP again and evaluates score_mod once for each element that it reads, so this source must be
/// differentiable even if score_mod_grad is given.
///
/// The variants simt and mma are deterministic, apart from daux: equal inputs and configurations give equal bits. wgmma
/// (Hopper) adds up dq in any order, unless dq has a kernel of its own (kernels=2) or a cluster holds all keys of a key
/// head, up to 1024; all variants add up daux in any order. These may differ by rounding between runs. kernels=2 is the
/// default above head_dim 128, except with dropout and many blocks. Without grouped heads it is the default at any head_dim
/// if the blocks of both kernels are few enough to run at the same time. `deterministic` puts the additions to dq in the
/// order of the keys, and sums daux in integers, in two passes. Plan::deterministic() reports whether equal inputs give
/// equal bits. Sums are float32, or of at least 24 bits of the largest term. 16-bit kernels round p and dx to 16 bits before
/// the products that follow, as FlashAttention does, so f16 gradients need the usual loss scaling.
///
/// After Dao, "FlashAttention-2", 2023 (arXiv:2307.08691); in simt and mma dq has a kernel of its own, so that nothing is
/// summed by atomics. wgmma after Shah et al., "FlashAttention-3", 2024 (arXiv:2407.08608).
///
///   AttentionProblem forward{.heads = 8, .seq_q = 4096, .head_dim = 64};
///   AttentionBackwardProblem backward{forward};
struct AttentionBackwardProblem : AttentionProblem {
  using Arrays = AttentionBackwardArrays;

  /// As AttentionProblem::q_strides; 0 broadcasts dout, the gradients reject it.
  AttentionArrayStrides dout_strides{}, dq_strides{}, dk_strides{}, dv_strides{};
  std::int64_t dout_alignment = 16;  ///< as AttentionProblem::q_alignment
  std::int64_t dq_alignment = 16, dk_alignment = 16, dv_alignment = 16;
  bool dlse = false;           ///< lse has a gradient
  bool dsinks = false;         ///< compute the gradient of sinks
  bool dslopes = false;        ///< compute the gradient of alibi_slopes
  bool deterministic = false;  ///< equal inputs and configurations give equal bits, in wgmma, too
  bool accumulate = false;     ///< add to the gradients that dq, dk, dv, dsinks and dslopes hold
  /// CUDA source of the derivative of score_mod by the score, which is trusted; empty: score_mod is differentiated.
  std::string score_mod_grad{};
  AttentionAuxGradients daux{};  ///< arrays of aux whose gradients are computed, such as {"bias"}

  // The problem is another operation's than its base.
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method)
  constexpr std::string_view op() const noexcept { return "attention_backward"; }
  bool operator==(const AttentionBackwardProblem&) const = default;
};

/// As for AttentionProblem.
void adopt(const AttentionBackwardProblem& problem, const AttentionBackwardArrays& arrays);

template <DescribedAs<AttentionBackwardProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const AttentionBackwardArrays& arrays, Visitor& v) {
  if constexpr (std::is_const_v<Self>)
    describe_attention_fields(static_cast<const AttentionProblem&>(p), v);
  else
    describe_attention_fields(static_cast<AttentionProblem&>(p), v);
  const auto [q, k, value, o] = attention_tensors(p);
  const AttentionTensor dout = o.as("dout", false), dq = q.as("dq", true), dk = k.as("dk", true), dv = value.as("dv", true);
  describe_strides(p, dout, {"dout_batch_stride", "dout_seq_stride", "dout_head_stride", "dout_alignment"}, p.dout_strides,
                   p.dout_alignment, v);
  describe_strides(p, dq, {"dq_batch_stride", "dq_seq_stride", "dq_head_stride", "dq_alignment"}, p.dq_strides,
                   p.dq_alignment, v);
  describe_strides(p, dk, {"dk_batch_stride", "dk_seq_stride", "dk_head_stride", "dk_alignment"}, p.dk_strides,
                   p.dk_alignment, v);
  describe_strides(p, dv, {"dv_batch_stride", "dv_seq_stride", "dv_head_stride", "dv_alignment"}, p.dv_strides,
                   p.dv_alignment, v);
  v.option("dlse", p.dlse, {.meaning = "lse has a gradient"});
  v.option("dsinks", p.dsinks, {.meaning = "computes the gradient of sinks", .only_with = {p.sinks, "sinks=1"}});
  v.option("dslopes", p.dslopes, {.meaning = "computes the gradient of alibi_slopes", .only_with = {p.alibi, "alibi=1"}});
  v.option("deterministic", p.deterministic, {.meaning = "equal inputs give equal bits in every run"});
  v.option("accumulate", p.accumulate, {.meaning = "adds to what the gradients' arrays hold, instead of replacing it"});
  v.field("score_mod_grad", p.score_mod_grad,
          {.meaning = "CUDA source of float score_mod_grad(float score, int b, int h, int q, int k, const Aux& aux), the "
                      "derivative of score_mod; none: computed over dual numbers",
           .omit_default = true});
  v.option("daux", p.daux,
           {.meaning = "arrays of aux whose gradients are computed, such as bias;gain: arrays daux_bias and daux_gain"});

  describe_attention_inputs(p, arrays, v);
  v.array(arrays.o, attention_array(p, o, p.o_strides, p.o_alignment));
  v.array(arrays.lse, lse_array(p, Role::input));
  v.array(arrays.dout, attention_array(p, dout, p.dout_strides, p.dout_alignment));
  ArrayFacts dlse = lse_array(p, Role::input);
  dlse.name = "dlse";
  dlse.present = p.dlse;
  dlse.enabled_by = &p.dlse;
  dlse.meaning = "gradient of lse";
  v.array(arrays.dlse, dlse);
  const auto gradient = [&](const void* address, ArrayFacts facts) {
    facts.role = p.accumulate ? Role::in_out : Role::output;
    v.array(address, facts);
  };
  gradient(arrays.dq, attention_array(p, dq, p.dq_strides, p.dq_alignment));
  gradient(arrays.dk, attention_array(p, dk, p.dk_strides, p.dk_alignment));
  gradient(arrays.dv, attention_array(p, dv, p.dv_strides, p.dv_alignment));
  const auto of_heads = [&heads = q.heads](std::string_view name, const bool& enabled_by, std::string_view meaning) {
    return ArrayFacts{.name = name, .shape = {heads}, .present = enabled_by, .enabled_by = &enabled_by, .meaning = meaning};
  };
  gradient(arrays.dsinks, of_heads("dsinks", p.dsinks, "gradient of sinks"));
  gradient(arrays.dslopes, of_heads("dslopes", p.dslopes, "gradient of alibi_slopes"));
  if constexpr (requires { v.user_array(arrays.daux[0]); }) {
    for (const void* const daux : arrays.daux) v.user_array(daux);
  } else if (!p.daux.empty()) {
    std::size_t at = 0;
    for (const AttentionAuxArray& aux : attention_aux_arrays(p))
      if (const std::string* const name = p.daux.array_of(aux.name); name != nullptr)
        gradient(arrays.daux[at++],
                 {.name = *name, .shape = {fixed(aux.length)}, .meaning = "gradient of an array that score_mod reads"});
  }
}

}  // namespace tunesmith
