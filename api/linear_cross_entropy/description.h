#pragma once
// The fields and arrays of linear cross-entropy by name, in the form of tunesmith/describe.h. Internal: linear cross-entropy
// consists of several operations and is not one of the registry's.

#include "tunesmith/cross_entropy.h"
#include "tunesmith/describe.h"
#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith {

constexpr DType logits_dtype(const LinearCrossEntropyProblem& p) noexcept { return p.f32_logits ? DType::f32 : p.dtype; }
constexpr DType dweight_dtype(const LinearCrossEntropyProblem& p) noexcept { return p.f32_dweight ? DType::f32 : p.dtype; }

template <DescribedAs<LinearCrossEntropyProblem> Self, DescriptionVisitor Visitor>
constexpr void describe_linear_fields(Self& p, Visitor& v) {
  namespace ce = cross_entropy;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  v.field("tokens", p.tokens, {.meaning = "number of tokens", .range = {0, most}, .required = true});
  v.field("hidden_size", p.hidden_size, {.meaning = "columns of hidden and weight", .range = {1, most}, .required = true});
  v.field("vocab_size", p.vocab_size, {.meaning = "number of classes", .range = {1, most - 63}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of hidden, weight and dhidden", .choices = float_dtypes});
  ce::describe_target_dtype(p, v);
  v.option("f32_logits", p.f32_logits, {.meaning = "logits are stored in f32 instead of dtype"});
  v.option("bias", p.bias, {.meaning = "classes have a bias (an array of the dtype of the logits)"});
  v.option("dhidden", p.dhidden, {.meaning = "the gradient of hidden is written"});
  v.option("dweight", p.dweight, {.meaning = "the gradient of weight is written"});
  v.option("dbias", p.dbias, {.meaning = "the gradient of bias is written", .only_with = {p.bias, "bias=1"}});
  v.option("f32_dweight", p.f32_dweight,
           {.meaning = "dweight and dbias are stored in f32 instead of dtype",
            .only_with = {p.dweight || p.dbias, "dweight=1 or dbias=1"}});
  ce::describe_reduction(p, v);
  v.option("dloss", p.dloss,
           {.meaning = "the upstream gradient is an array, shaped like loss",
            .only_with = {p.dhidden || p.dweight || p.dbias, "dhidden=1, dweight=1 or dbias=1"}});
  v.option("dlse", p.dlse,
           {.meaning = "the gradient of the final result with respect to lse is an array",
            .only_with = {p.dhidden || p.dweight || p.dbias, "dhidden=1, dweight=1 or dbias=1"}});
  ce::describe_targets(p, v);
  ce::describe_z_loss(p, v);
  ce::describe_logit_options(p, v);
  v.option("class_weight", p.class_weight, {.meaning = "classes have weights (a float32 array)"});
  v.option("nll", p.nll, {.meaning = "lse - logit of the target is written"});
  ce::describe_predicted(p, v);
  const auto alignment = [&](std::string_view name, auto& field, std::string_view meaning, DType dtype) {
    FieldFacts facts = alignment_facts(meaning, dtype);
    facts.omit_default = true;
    v.field(name, field, facts);
  };
  alignment("hidden_alignment", p.hidden_alignment, "bytes that the address of hidden is a multiple of", p.dtype);
  alignment("weight_alignment", p.weight_alignment, "bytes that the address of weight is a multiple of", p.dtype);
  alignment("bias_alignment", p.bias_alignment, "bytes that the address of bias is a multiple of", logits_dtype(p));
  alignment("dhidden_alignment", p.dhidden_alignment, "bytes that the address of dhidden is a multiple of", p.dtype);
  alignment("dweight_alignment", p.dweight_alignment, "bytes that the address of dweight is a multiple of",
            dweight_dtype(p));
  const bool can_fuse =
      p.dtype != DType::f16 && !p.f32_logits && !p.bias && !p.class_weight && !p.argmax && p.label_smoothing == 0;
  v.option(
      "fused", p.fused,
      {.meaning = "no logits are stored: the product of the logits computes exponentials and their sums",
       .only_with = {can_fuse, "dtype bf16 or f32 and without f32_logits, bias, class_weight, argmax and label_smoothing"}});
  v.option("memory_bytes", p.memory_bytes,
           {.meaning = "maximum workspace in bytes, which determines chunk_tokens", .range = {1, std::int64_t{1} << 56}});
  v.option("chunk_tokens", p.chunk_tokens, {.meaning = "tokens of a chunk; 0: as many as fit", .range = {0, most}});
  v.option("caller_workspace", p.caller_workspace, {.meaning = "the workspace is an array of the launch"});
}

/// `workspace_bytes`: of the array `workspace`, which only a prepared problem knows.
template <typename Arrays, DescriptionVisitor Visitor>
constexpr void describe_linear_arrays(const LinearCrossEntropyProblem& p, Arrays& arrays, std::int64_t workspace_bytes,
                                      Visitor& v) {
  const Extent losses = p.reduction == Reduction::none ? size(p.tokens) : fixed(1);
  const Extent tokens = size(p.tokens), hidden_size = size(p.hidden_size), vocab_size = size(p.vocab_size);
  constexpr Role in = Role::input, out = Role::output;
  v.array(
      arrays.hidden,
      {.name = "hidden", .role = in, .dtype = p.dtype, .shape = {tokens, hidden_size}, .alignment = &p.hidden_alignment});
  v.array(arrays.weight, {.name = "weight",
                          .role = in,
                          .dtype = p.dtype,
                          .shape = {vocab_size, hidden_size},
                          .alignment = &p.weight_alignment});
  v.array(arrays.targets, {.name = "targets", .role = in, .dtype = p.target_dtype, .shape = {tokens}});
  v.array(arrays.class_weight, {.name = "class_weight", .role = in, .shape = {vocab_size}, .present = p.class_weight});
  v.array(arrays.dloss, {.name = "dloss", .role = in, .shape = {losses}, .present = p.dloss});
  v.array(arrays.bias, {.name = "bias",
                        .role = in,
                        .dtype = logits_dtype(p),
                        .shape = {vocab_size},
                        .alignment = &p.bias_alignment,
                        .present = p.bias});
  v.array(arrays.dlse, {.name = "dlse", .role = in, .shape = {tokens}, .present = p.dlse});
  v.array(arrays.loss, {.name = "loss", .role = out, .shape = {losses}});
  v.array(arrays.lse, {.name = "lse", .role = out, .shape = {tokens}, .optional = true});
  v.array(arrays.z_loss, {.name = "z_loss", .role = out, .shape = {losses}, .present = p.z_loss > 0, .optional = true});
  v.array(arrays.nll, {.name = "nll", .role = out, .shape = {tokens}, .present = p.nll});
  v.array(arrays.argmax, {.name = "argmax", .role = out, .dtype = p.target_dtype, .shape = {tokens}, .present = p.argmax});
  v.array(arrays.dhidden, {.name = "dhidden",
                           .role = out,
                           .dtype = p.dtype,
                           .shape = {tokens, hidden_size},
                           .alignment = &p.dhidden_alignment,
                           .present = p.dhidden});
  v.array(arrays.dweight, {.name = "dweight",
                           .role = out,
                           .dtype = dweight_dtype(p),
                           .shape = {vocab_size, hidden_size},
                           .alignment = &p.dweight_alignment,
                           .present = p.dweight});
  v.array(arrays.dbias,
          {.name = "dbias", .role = out, .dtype = dweight_dtype(p), .shape = {vocab_size}, .present = p.dbias});
  v.array(arrays.workspace, {.name = "workspace",
                             .role = Role::in_out,
                             .dtype = DType::u8,
                             .shape = {fixed(workspace_bytes, "bytes")},
                             .aligned_to = 256,
                             .present = p.caller_workspace,
                             .meaning = "scratch memory"});
}

}  // namespace tunesmith
