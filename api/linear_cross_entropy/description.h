#pragma once
// The fields and arrays of linear cross-entropy by name, in the form of tunesmith/describe.h. Internal: linear cross-entropy
// consists of several operations and is not one of the registry's.

#include "tunesmith/cross_entropy.h"
#include "tunesmith/describe.h"
#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith {

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
  v.option("dhidden", p.dhidden, {.meaning = "the gradient of hidden is written"});
  v.option("dweight", p.dweight, {.meaning = "the gradient of weight is written"});
  v.option("f32_dweight", p.f32_dweight,
           {.meaning = "dweight is stored in f32 instead of dtype", .only_with = {p.dweight, "dweight=1"}});
  ce::describe_reduction(p, v);
  v.option("dloss", p.dloss,
           {.meaning = "the upstream gradient is an array, shaped like loss",
            .only_with = {p.dhidden || p.dweight, "dhidden=1 or dweight=1"}});
  ce::describe_targets(p, v);
  ce::describe_z_loss(p, v);
  ce::describe_logit_options(p, v);
  v.option("class_weight", p.class_weight, {.meaning = "classes have weights (a float32 array)"});
  v.option("nll", p.nll, {.meaning = "lse - logit of the target is written"});
  ce::describe_predicted(p, v);
  v.option("memory_bytes", p.memory_bytes,
           {.meaning = "maximum workspace in bytes, which determines chunk_tokens", .range = {1, std::int64_t{1} << 56}});
  v.option("chunk_tokens", p.chunk_tokens, {.meaning = "tokens of a chunk; 0: as many as fit", .range = {0, most}});
  v.option("caller_workspace", p.caller_workspace, {.meaning = "the workspace is an array of the launch"});
}

/// `workspace_bytes`: of the array `workspace`, which only a prepared problem knows.
template <typename Arrays, DescriptionVisitor Visitor>
constexpr void describe_linear_arrays(const LinearCrossEntropyProblem& p, Arrays& arrays, std::int64_t workspace_bytes,
                                      Visitor& v) {
  constexpr std::int64_t matrix = 16;  // bytes: cuBLASLt and the kernels use whole vectors
  const Extent losses = p.reduction == Reduction::none ? size(p.tokens) : fixed(1);
  const Extent tokens = size(p.tokens), hidden_size = size(p.hidden_size), vocab_size = size(p.vocab_size);
  const DType dweight = p.f32_dweight ? DType::f32 : p.dtype;
  constexpr Role in = Role::input, out = Role::output;
  v.array(arrays.hidden,
          {.name = "hidden", .role = in, .dtype = p.dtype, .shape = {tokens, hidden_size}, .aligned_to = matrix});
  v.array(arrays.weight,
          {.name = "weight", .role = in, .dtype = p.dtype, .shape = {vocab_size, hidden_size}, .aligned_to = matrix});
  v.array(arrays.targets, {.name = "targets", .role = in, .dtype = p.target_dtype, .shape = {tokens}});
  v.array(arrays.class_weight, {.name = "class_weight", .role = in, .shape = {vocab_size}, .present = p.class_weight});
  v.array(arrays.dloss, {.name = "dloss", .role = in, .shape = {losses}, .present = p.dloss});
  v.array(arrays.loss, {.name = "loss", .role = out, .shape = {losses}});
  v.array(arrays.lse, {.name = "lse", .role = out, .shape = {tokens}, .optional = true});
  v.array(arrays.z_loss, {.name = "z_loss", .role = out, .shape = {losses}, .present = p.z_loss > 0, .optional = true});
  v.array(arrays.nll, {.name = "nll", .role = out, .shape = {tokens}, .present = p.nll});
  v.array(arrays.argmax, {.name = "argmax", .role = out, .dtype = p.target_dtype, .shape = {tokens}, .present = p.argmax});
  v.array(arrays.dhidden, {.name = "dhidden",
                           .role = out,
                           .dtype = p.dtype,
                           .shape = {tokens, hidden_size},
                           .aligned_to = matrix,
                           .present = p.dhidden});
  v.array(arrays.dweight, {.name = "dweight",
                           .role = out,
                           .dtype = dweight,
                           .shape = {vocab_size, hidden_size},
                           .aligned_to = matrix,
                           .present = p.dweight});
  v.array(arrays.workspace, {.name = "workspace",
                             .role = Role::in_out,
                             .dtype = DType::u8,
                             .shape = {fixed(workspace_bytes, "bytes")},
                             .aligned_to = 256,
                             .present = p.caller_workspace,
                             .meaning = "scratch memory"});
}

}  // namespace tunesmith
