#pragma once
// Fields and arrays that linear_loss and linear_loss_backward share. Internal.

#include <optional>

#include "templates/matmul/product.h"
#include "tunesmith/cross_entropy.h"
#include "tunesmith/describe.h"

namespace tunesmith::linear_loss {

/// Returns the product of the logits, which has the columns of `columns()`.
template <typename Problem>
matmul::ProductProblem product_of(const Problem& p, const std::optional<std::int64_t>& row_stride) {
  matmul::ProductProblem product;
  product.m = p.tokens;
  product.n = p.vocab_size;
  product.k = p.hidden_size;
  product.dtype = p.dtype;
  product.transpose_b = true;
  product.more_columns = p.columns() - p.vocab_size;
  product.c_row_stride = row_stride;
  product.a_alignment = p.hidden_alignment;
  product.b_alignment = p.weight_alignment;
  product.may_split = false;
  return product;
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_sizes(Self& p, Visitor& v) {
  constexpr std::int64_t most = matmul::ProductProblem::most;
  const auto extent = [&](std::string_view name, auto& field, std::string_view meaning, std::int64_t largest, bool runtime) {
    v.field(name, field, {.meaning = meaning, .range = {1, largest}, .required = true, .runtime = runtime});
  };
  extent("tokens", p.tokens, "rows of hidden", most, true);
  extent("hidden_size", p.hidden_size, "columns of hidden and weight", most, false);  // decides how many a thread loads
  extent("vocab_size", p.vocab_size, "rows of weight, the classes", most - 7, true);
  v.field("dtype", p.dtype, {.meaning = "element type of hidden and weight", .choices = one_of(DType::f32, DType::bf16)});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_loss(Self& p, Visitor& v) {
  v.option("ignore_index", p.ignore_index, {.meaning = "target of tokens that are skipped"});
  cross_entropy::describe_z_loss(p, v);
  cross_entropy::describe_logit_options(p, v);
}

/// `name`: the array with a column for each class.
template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_layout(Self& p, auto& row_stride, std::string_view name, Visitor& v) {
  FieldFacts facts;
  facts.meaning = "elements from one row to the next";
  facts.range = {p.columns(), std::int64_t{1} << 40};
  facts.follows = {"vocab_size rounded up to a multiple of 8", p.columns()};
  facts.runtime = true;
  v.field(name, row_stride, facts);
  v.field("hidden_alignment", p.hidden_alignment,
          alignment_facts("bytes that the address of hidden is a multiple of", p.dtype));
  v.field("weight_alignment", p.weight_alignment,
          alignment_facts("bytes that the address of weight is a multiple of", p.dtype));
}

template <typename Problem>
constexpr ArrayFacts logits_array(const Problem& p, std::string_view name, const std::optional<std::int64_t>& row_stride,
                                  bool present) {
  return {.name = name,
          .role = Role::output,
          .dtype = p.dtype,
          .shape = {size(p.tokens), fixed(p.columns())},
          .strides = {row_stride.value_or(p.columns()), 1},
          .aligned_to = 16,
          .present = present};
}

template <typename Problem>
constexpr ArrayFacts dloss_array(const Problem& p) {
  return {.name = "dloss",
          .dtype = DType::f32,
          .shape = {p.dloss == Upstream::row ? size(p.tokens) : fixed(1)},
          .present = p.dloss != Upstream::none};
}

template <typename Problem, DescriptionVisitor Visitor>
constexpr void describe_inputs(const Problem& p, const auto& arrays, Visitor& v) {
  const Extent hidden_size = size(p.hidden_size);
  v.array(arrays.hidden,
          {.name = "hidden", .dtype = p.dtype, .shape = {size(p.tokens), hidden_size}, .alignment = &p.hidden_alignment});
  v.array(
      arrays.weight,
      {.name = "weight", .dtype = p.dtype, .shape = {size(p.vocab_size), hidden_size}, .alignment = &p.weight_alignment});
  v.array(arrays.targets, {.name = "targets", .dtype = p.target_dtype, .shape = {size(p.tokens)}});
}

}  // namespace tunesmith::linear_loss
