#pragma once
// Fields and arrays of the cross-entropy family. Included by tunesmith/cross_entropy.h.

#include "tunesmith/cross_entropy.h"

namespace tunesmith {
namespace cross_entropy {

inline constexpr Choices target_dtypes = one_of(DType::i64, DType::i32);

/// Returns the element type of losses, lse, weights and upstream gradients for logits of this type.
constexpr DType number_of(DType logits) noexcept { return logits == DType::f64 ? DType::f64 : DType::f32; }
template <typename Self>
constexpr DType number_of(const Self& p) {
  if constexpr (requires { p.dtype; }) return number_of(p.dtype);
  return DType::f32;
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_rows(Self& p, Visitor& v) {
  v.field("rows", p.rows, {.meaning = "number of rows (tokens)", .range = {0}, .required = true, .runtime = true});
}

/// `choices`: the element types. `min_cols`: 0 if there may be no classes.
template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_logits(Self& p, Visitor& v, Choices choices = float_dtypes, std::int64_t min_cols = 1) {
  describe_rows(p, v);
  v.field("cols", p.cols,
          {.meaning = "number of classes in logits; kernels are specialized for it",
           .range = {min_cols, max_cols},
           .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of logits", .choices = choices});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_target_dtype(Self& p, Visitor& v) {
  v.field("target_dtype", p.target_dtype, {.meaning = "element type of targets", .choices = target_dtypes});
}

/// Returns the shape of an array with an element for each row, or for each position of each row.
template <typename Self>
constexpr Dims<Extent> row_shape(const Self& p) {
  if constexpr (requires { p.strided(); }) {
    if (p.inner != 1) return {size(p.rows), size(p.inner)};
  }
  return {size(p.rows)};
}

/// Adapts the properties of a row stride to columns that are not adjacent.
template <typename Self>
constexpr FieldFacts row_stride(Self& p, const FieldFacts& facts) {
  if constexpr (requires { p.strided(); }) {
    if (p.strided()) return strided_row(facts, p.cols, p.inner);
  }
  return facts;
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_logits_layout(Self& p, Visitor& v) {
  v.field("logits_row_stride", p.logits_row_stride,
          row_stride(p, input_stride("elements from one row of logits to the next; 0: one row for all", p.cols)));
}

/// Describes the strides of columns that are not adjacent.
template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_inner(Self& p, Visitor& v) {
  v.option("inner", p.inner, inner_facts());
  v.option("logits_col_stride", p.logits_col_stride, col_stride("elements from one column of logits to the next", p.inner));
  v.option("logits_inner_stride", p.logits_inner_stride, inner_stride("elements from one position of logits to the next"));
  v.option("dlogits_col_stride", p.dlogits_col_stride,
           col_stride("elements from one column of dlogits to the next", p.inner));
  v.option("dlogits_inner_stride", p.dlogits_inner_stride,
           inner_stride("elements from one position of dlogits to the next"));
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_logits_alignment(Self& p, Visitor& v) {
  v.field("logits_alignment", p.logits_alignment,
          alignment_facts("bytes that the address of logits is a multiple of", p.dtype));
}

/// Element type, stride and alignment of logits and dlogits.
template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_layouts(Self& p, Visitor& v) {
  v.field("out_dtype", p.out_dtype,
          {.meaning = "element type of dlogits", .choices = float_or_double_dtypes, .follows = {"dtype", p.dtype}});
  describe_logits_layout(p, v);
  v.field("dlogits_row_stride", p.dlogits_row_stride,
          row_stride(p, output_stride("elements from one row of dlogits to the next", p.cols)));
  describe_logits_alignment(p, v);
  v.field("dlogits_alignment", p.dlogits_alignment,
          alignment_facts("bytes that the address of dlogits is a multiple of", p.output()));
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_shard(Self& p, Visitor& v) {
  v.option("vocab_start", p.vocab_start, {.meaning = "class of the first column", .range = {0, max_cols - 1}});
  const std::int64_t least = p.cols < max_cols && p.vocab_start < max_cols ? p.vocab_start + p.cols : max_cols;
  v.option(
      "vocab_size", p.vocab_size,
      {.meaning = "number of classes in all shards", .range = {least, max_cols}, .follows = {"vocab_start + cols", least}});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_targets(Self& p, Visitor& v) {
  v.option("ignore_index", p.ignore_index, {.meaning = "target of rows that are skipped"});
  v.option("label_smoothing", p.label_smoothing, {.meaning = "label-smoothing factor", .range = {0.0, 1.0}});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_z_loss(Self& p, Visitor& v) {
  v.option("z_loss", p.z_loss, {.meaning = "factor of the term lse^2 in the loss", .range = {0.0, 1e6}});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_logit_options(Self& p, Visitor& v) {
  v.option("scale", p.scale, {.meaning = "positive factor of logits", .range = {1e-6, 1e6}});
  v.option(
      "softcap", p.softcap,
      {.meaning = "logits become softcap * tanh(logits / softcap); 0: no soft cap", .range = {1e-3, 1e6}, .zero_too = true});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_reduction(Self& p, Visitor& v) {
  v.option("reduction", p.reduction, {.meaning = "reduction of the row losses"});
}

inline constexpr std::string_view float_weight = "read a weight per class: an array of float32";
inline constexpr std::string_view float_or_double_weight =
    "read a weight per class: an array of float32, or of f64 for f64 logits";

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_weight(Self& p, Visitor& v, std::string_view meaning = float_weight) {
  v.option("weight", p.weight, {.meaning = meaning});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_predicted(Self& p, Visitor& v) {
  v.option("argmax", p.argmax, {.meaning = "write the class with the maximum logit of each row"});
}

template <typename Self, DescriptionVisitor Visitor>
constexpr void describe_outputs(Self& p, Visitor& v) {
  v.option("lse_low", p.lse_low, {.meaning = "write what rounding lse lost"});
  v.option("nll", p.nll, {.meaning = "write lse - logit of the target"});
  describe_predicted(p, v);
  v.option("num_correct", p.num_correct, {.meaning = "write the number of rows whose argmax is their target"});
  v.option("check_targets", p.check_targets,
           {.meaning = "write the number of rows with an invalid target, and the first of them"});
  v.option("mark_ignored", p.mark_ignored, {.meaning = "argmax of ignored rows is -1", .only_with = {p.argmax, "argmax=1"}});
}

template <typename Self>
constexpr ArrayFacts logits_array(Self& p) {
  ArrayFacts facts{.name = "logits",
                   .dtype = p.dtype,
                   .shape = {size(p.rows), size(p.cols)},
                   .strides = {p.logits_row_stride.value_or(p.cols), 1},
                   .alignment = &p.logits_alignment,
                   .meaning = "scores of the classes"};
  if constexpr (requires { p.strided(); }) {
    if (p.strided())
      set_strided_shape(facts, p.rows, p.cols, p.inner, {p.logits_row_stride, p.logits_col_stride, p.logits_inner_stride});
  }
  return facts;
}

template <typename Self>
constexpr ArrayFacts dlogits_array(Self& p, bool in_place) {
  ArrayFacts facts{.name = "dlogits",
                   .role = Role::output,
                   .dtype = p.output(),
                   .shape = {size(p.rows), size(p.cols)},
                   .strides = {p.dlogits_row_stride.value_or(p.cols), 1},
                   .alignment = &p.dlogits_alignment,
                   .in_place_of = in_place ? "logits" : "",
                   .meaning = "gradient with respect to logits"};
  if (p.strided())
    set_strided_shape(facts, p.rows, p.cols, p.inner, {p.dlogits_row_stride, p.dlogits_col_stride, p.dlogits_inner_stride});
  return facts;
}

template <typename Self>
constexpr ArrayFacts targets_array(Self& p) {
  return {.name = "targets", .dtype = p.target_dtype, .shape = row_shape(p), .meaning = "class of each row"};
}

template <typename Self>
constexpr ArrayFacts weight_array(Self& p) {
  return {.name = "weight",
          .dtype = number_of(p),
          .shape = {size(p.cols)},
          .present = p.weight,
          .enabled_by = &p.weight,
          .meaning = "weight of each class"};
}

/// Eight numbers per row and shard: float32, or f64 for logits of f64.
constexpr ArrayFacts partials_array(Role role, DType dtype, const Extent& rows) {
  return {.name = "partials",
          .role = role,
          .dtype = dtype,
          .shape = {rows, fixed(8)},
          .aligned_to = 16,
          .meaning = "partial results of each row"};
}

/// Describes the outputs from loss to bad_targets.
template <typename Self, typename Arrays, DescriptionVisitor Visitor>
constexpr void describe_loss_arrays(Self& p, const Arrays& arrays, Visitor& v) {
  const Dims<Extent> losses = p.reduction == Reduction::none ? row_shape(p) : Dims<Extent>{fixed(1)};
  const auto output = [](std::string_view name, DType dtype, const Dims<Extent>& shape, std::string_view meaning) {
    return ArrayFacts{.name = name, .role = Role::output, .dtype = dtype, .shape = shape, .meaning = meaning};
  };
  const auto optional = [&](std::string_view name, DType dtype, const Dims<Extent>& shape, const bool& option,
                            std::string_view meaning) {
    ArrayFacts facts = output(name, dtype, shape, meaning);
    facts.present = option;
    facts.enabled_by = &option;
    return facts;
  };
  v.array(arrays.loss, output("loss", number_of(p), losses, "row losses, or their reduction"));
  v.array(arrays.lse, output("lse", number_of(p), row_shape(p), "log of the sum of exponentials of each row"));
  v.array(arrays.lse_low, optional("lse_low", number_of(p), row_shape(p), p.lse_low, "log of the sum less lse"));
  ArrayFacts z_loss = output("z_loss", number_of(p), losses, "z_loss term of the loss");
  z_loss.present = p.z_loss != 0;
  v.array(arrays.z_loss, z_loss);
  v.array(arrays.nll, optional("nll", number_of(p), row_shape(p), p.nll, "lse - logit of the target"));
  v.array(arrays.argmax, optional("argmax", p.target_dtype, row_shape(p), p.argmax, "first class with the maximum logit"));
  v.array(arrays.num_correct,
          optional("num_correct", DType::i64, {fixed(1)}, p.num_correct, "rows whose argmax class is their target"));
  v.array(arrays.bad_targets, optional("bad_targets", DType::i64, {fixed(2)}, p.check_targets,
                                       "number of rows with an invalid target, and the first of them or -1"));
}

}  // namespace cross_entropy

template <DescribedAs<CrossEntropyProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const CrossEntropyArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  ce::describe_logits(p, v, float_or_double_dtypes);
  ce::describe_target_dtype(p, v);
  ce::describe_layouts(p, v);
  v.field("gradient", p.gradient, {.meaning = "write dlogits in the same pass: to a separate array, or in place of logits"});
  ce::describe_targets(p, v);
  ce::describe_z_loss(p, v);
  ce::describe_logit_options(p, v);
  ce::describe_reduction(p, v);
  ce::describe_weight(p, v, ce::float_or_double_weight);
  v.option("dloss", p.dloss, {.meaning = "upstream gradient known in advance: an array of one element, or one per row"});
  ce::describe_outputs(p, v);
  ce::describe_inner(p, v);

  v.array(arrays.logits, ce::logits_array(p));
  v.array(arrays.targets, ce::targets_array(p));
  v.array(arrays.weight, ce::weight_array(p));
  v.array(arrays.dloss, {.name = "dloss",
                         .dtype = ce::number_of(p),
                         .shape = p.dloss == Upstream::row ? ce::row_shape(p) : Dims<Extent>{fixed(1)},
                         .present = p.dloss != Upstream::none,
                         .meaning = "upstream gradient"});
  ce::describe_loss_arrays(p, arrays, v);
  ArrayFacts dlogits = ce::dlogits_array(p, p.gradient == Gradient::in_place);
  dlogits.present = p.gradient != Gradient::none;
  dlogits.shares = arrays.logits;
  dlogits.in_place_choice = &p.gradient;
  v.array(arrays.dlogits, dlogits);
}

/// Non-null arrays enable a gradient and an upstream gradient.
constexpr void adopt(CrossEntropyProblem& p, const CrossEntropyArrays& arrays) noexcept {
  if (arrays.dloss != nullptr && p.dloss == Upstream::none)
    p.dloss = p.reduction == Reduction::none ? Upstream::row : Upstream::scalar;
  if (arrays.dlogits != nullptr)
    p.gradient = arrays.dlogits == arrays.logits && p.rows > 0 ? Gradient::in_place : Gradient::separate;
}

template <DescribedAs<CrossEntropyBackwardProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const CrossEntropyBackwardArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  ce::describe_logits(p, v, float_or_double_dtypes, 0);
  ce::describe_target_dtype(p, v);
  ce::describe_layouts(p, v);
  v.field("in_place", p.in_place, {.meaning = "dlogits is logits"});
  ce::describe_shard(p, v);
  ce::describe_targets(p, v);
  ce::describe_z_loss(p, v);
  ce::describe_logit_options(p, v);
  ce::describe_reduction(p, v);
  ce::describe_weight(p, v, ce::float_or_double_weight);
  const Upstream usual = p.reduction == Reduction::none ? Upstream::row : Upstream::scalar;
  v.option("dloss", p.dloss,
           {.meaning = "upstream gradient: one element, or one per row",
            .choices = one_of(Upstream::scalar, Upstream::row),
            .follows = {"row for reduction none, else scalar", usual}});
  v.option("lse_low", p.lse_low,
           {.meaning = "read lse_low of the forward operation, for accurate gradients of large logits"});
  v.option("nll", p.nll, {.meaning = "read nll of the forward operation, for accurate gradients of confident rows"});
  v.option("dlse", p.dlse, {.meaning = "read the gradient with respect to lse, and add it"});
  ce::describe_inner(p, v);

  v.array(arrays.logits, ce::logits_array(p));
  v.array(arrays.targets, ce::targets_array(p));
  v.array(arrays.lse, {.name = "lse",
                       .dtype = ce::number_of(p),
                       .shape = ce::row_shape(p),
                       .meaning = "log of the sum of exponentials of each row, from the forward operation"});
  v.array(arrays.dloss, {.name = "dloss",
                         .dtype = ce::number_of(p),
                         .shape = p.dloss.value_or(usual) == Upstream::row ? ce::row_shape(p) : Dims<Extent>{fixed(1)},
                         .meaning = "upstream gradient"});
  v.array(arrays.lse_low, {.name = "lse_low",
                           .dtype = ce::number_of(p),
                           .shape = ce::row_shape(p),
                           .present = p.lse_low,
                           .enabled_by = &p.lse_low,
                           .meaning = "log of the sum less lse, from the forward operation"});
  v.array(arrays.nll, {.name = "nll",
                       .dtype = ce::number_of(p),
                       .shape = ce::row_shape(p),
                       .present = p.nll,
                       .enabled_by = &p.nll,
                       .meaning = "lse - logit of the target, from the forward operation"});
  v.array(arrays.weight, ce::weight_array(p));
  v.array(arrays.dlse, {.name = "dlse",
                        .dtype = ce::number_of(p),
                        .shape = ce::row_shape(p),
                        .present = p.dlse,
                        .enabled_by = &p.dlse,
                        .meaning = "gradient with respect to lse"});
  ArrayFacts dlogits = ce::dlogits_array(p, p.in_place);
  dlogits.in_place = &p.in_place;
  dlogits.shares = arrays.logits;
  v.array(arrays.dlogits, dlogits);
}

template <DescribedAs<CrossEntropyShardProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const CrossEntropyShardArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  ce::describe_logits(p, v, float_or_double_dtypes);
  ce::describe_target_dtype(p, v);
  ce::describe_logits_layout(p, v);
  ce::describe_logits_alignment(p, v);
  ce::describe_shard(p, v);
  ce::describe_targets(p, v);
  ce::describe_logit_options(p, v);
  ce::describe_weight(p, v, ce::float_or_double_weight);
  ce::describe_predicted(p, v);

  v.array(arrays.logits, ce::logits_array(p));
  v.array(arrays.targets, ce::targets_array(p));
  v.array(arrays.weight, ce::weight_array(p));
  v.array(arrays.partials, ce::partials_array(Role::output, ce::number_of(p), size(p.rows)));
}

template <DescribedAs<CrossEntropyCombineProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const CrossEntropyCombineArrays& arrays, Visitor& v) {
  namespace ce = cross_entropy;
  ce::describe_rows(p, v);
  v.field("shards", p.shards, {.meaning = "number of vocabulary shards", .range = {1, 1 << 20}, .required = true});
  v.field("dtype", p.dtype,
          {.meaning = "element type of partials and losses: f64 for logits of f64, f32 for all others",
           .choices = one_of(DType::f32, DType::f64)});
  ce::describe_target_dtype(p, v);
  v.field("vocab_size", p.vocab_size, {.meaning = "number of classes", .range = {1, max_cols}, .required = true});
  ce::describe_targets(p, v);
  ce::describe_z_loss(p, v);
  ce::describe_reduction(p, v);
  ce::describe_weight(p, v, "the partials were computed with a weight per class");
  ce::describe_outputs(p, v);

  // The extent check rejects sizes beyond any memory; avoid an overflow before it.
  constexpr std::int64_t most = std::int64_t{1} << 52;
  const std::int64_t rows = p.rows > 0 && p.shards > most / p.rows ? most : p.shards * p.rows;
  v.array(arrays.partials,
          ce::partials_array(Role::input, ce::number_of(p), p.shards == 1 ? size(p.rows) : fixed(rows, "shards * rows")));
  v.array(arrays.targets, ce::targets_array(p));
  ce::describe_loss_arrays(p, arrays, v);
}

}  // namespace tunesmith
