// Problems of the cross-entropy family: fields, their checks, arrays.

#include "templates/cross_entropy/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "templates/config_values.h"
#include "templates/row/fields.h"
#include "tunesmith/error.h"

namespace tunesmith::cross_entropy {
namespace {

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
const Words float_words{"f32", "f16", "bf16"}, target_words{"i64", "i32"};
const Words gradient_words{"none", "separate", "in_place"}, reduction_words{"mean", "sum", "none"};
const Words upstream_words{"none", "scalar", "row"}, backward_upstream_words{"scalar", "row"};

bool flag(const Problem& problem, std::string_view field) { return row::integer_between(problem, field, 0, 0, 1) != 0; }

std::int64_t stride_of(const Problem& problem, std::string_view field, std::int64_t cols) {
  const std::int64_t stride = row::integer_between(problem, field, cols, 0, any);
  if (stride == 0) return cols;
  if (stride < cols) throw Error(ErrorCode::invalid_argument, field, " is ", stride, "; allowed: at least cols, ", cols);
  return stride;
}

void parse_gradient(const Problem& problem, Settings& settings) {
  row::Shape& shape = settings.shape;
  if (settings.kind == Kind::backward)
    settings.gradient = flag(problem, "in_place") ? Gradient::in_place : Gradient::separate;
  else
    settings.gradient = static_cast<Gradient>(row::word_at(problem, "gradient", gradient_words, 0));
  shape.output = row::float_dtype_field(problem, "out_dtype", shape.input);
  shape.out.stride = stride_of(problem, "dlogits_row_stride", shape.cols);
  shape.out.alignment = row::alignment_field(problem, "dlogits_alignment", shape.output);
  row::check_extent("dlogits", shape.rows, shape.out.stride, shape.output);
  shape.in_place = settings.gradient == Gradient::in_place;
  if (shape.in_place) {
    if (shape.input != shape.output || shape.in[0].stride != shape.out.stride)
      throw Error(ErrorCode::invalid_argument, "the gradient is written in place, but logits (", name(shape.input),
                  ", row stride ", shape.in[0].stride, ") and dlogits (", name(shape.output), ", row stride ",
                  shape.out.stride, ") differ; both must agree");
    shape.in[0].alignment = shape.out.alignment = std::min(shape.in[0].alignment, shape.out.alignment);
  }
  if (!settings.has_gradient()) {
    shape.output = shape.input;
    shape.out = shape.in[0];
  }
}

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::loss: return "cross_entropy";
    case Kind::backward: return "cross_entropy_backward";
    case Kind::shard: return "cross_entropy_shard";
    case Kind::combine: return "cross_entropy_combine";
  }
  return {};
}

std::vector<FieldInfo> fields_of(Kind kind) {
  std::vector<FieldInfo> fields;
  const auto field = [&](std::string_view name, std::string_view meaning, std::string_view fallback, Words words = {}) {
    fields.push_back({name, meaning, std::string(fallback), std::move(words)});
  };
  const auto option = [&](std::string_view name, std::string_view meaning, std::string_view fallback, Words words = {}) {
    field(name, meaning, fallback, std::move(words));
    fields.back().option = true;
  };
  const bool has_logits = kind != Kind::combine;
  const bool has_dlogits = kind == Kind::loss || kind == Kind::backward;
  const bool has_loss = kind == Kind::loss || kind == Kind::combine;
  field("rows", "number of rows (tokens), from 0", "");
  if (has_logits) {
    field("cols",
          kind == Kind::loss ? "number of classes, from 1; kernels are specialized for it"
                             : "classes at hand, from 1; kernels are specialized for it",
          "");
    field("dtype", "element type of logits", "f32", float_words);
  } else {
    field("shards", "parts of a row, from 1", "");
  }
  field("target_dtype", "element type of targets", "i64", target_words);
  if (has_dlogits) field("out_dtype", "element type of dlogits", "that of logits", float_words);
  if (has_logits) {
    field("logits_row_stride", "elements from one row of logits to the next", "cols");
    if (has_dlogits) field("dlogits_row_stride", "elements from one row of dlogits to the next", "cols");
    field("logits_alignment", "bytes that the address of logits is a multiple of", "16");
    if (has_dlogits) field("dlogits_alignment", "bytes that the address of dlogits is a multiple of", "16");
  }
  if (kind == Kind::loss)
    field("gradient", "whether dlogits are written in the same pass: to an array of their own, or over logits", "none",
          gradient_words);
  if (kind == Kind::backward) field("in_place", "1: dlogits is logits", "0");
  if (kind == Kind::backward || kind == Kind::shard) option("vocab_start", "class of the first column", "0");
  if (kind == Kind::combine)
    field("vocab_size", "number of classes", "");
  else if (kind != Kind::loss)
    option("vocab_size", "number of classes in all shards", "cols");

  option("ignore_index", "target of rows that count for nothing", "-100");
  option("label_smoothing", "share of the loss that all classes have alike, 0 to 1", "0");
  if (kind != Kind::shard) option("z_loss", "factor of lse^2, which is added to the loss", "0");
  if (has_logits) {
    option("scale", "positive factor of logits", "1");
    option("softcap", "logits become softcap * tanh(logits / softcap); 0: they do not", "0");
  }
  if (kind != Kind::shard) option("reduction", "of the rows' losses", "mean", reduction_words);
  option("weight", "1: classes have weights (a float32 array)", "0");
  if (kind == Kind::loss)
    option("dloss", "upstream gradient, known beforehand: a float32 array of one element, or of one a row", "none",
           upstream_words);
  if (kind == Kind::backward)
    option("dloss", "upstream gradient: one element, or one a row", "row for reduction none, else scalar",
           backward_upstream_words);
  if (kind == Kind::backward)
    option("nll", "1: nll as the forward operation wrote it, for the digits of confident rows", "0");
  if (has_loss) option("nll", "1: lse - logit of the target is written too", "0");
  if (kind != Kind::backward) option("predicted", "1: the class with the largest logit is written", "0");
  if (has_loss) {
    option("correct", "1: the number of rows whose largest logit is their target's is written", "0");
    option("check_targets", "1: the number of rows whose target is no class, and the first of them, are written", "0");
  }
  return fields;
}

Settings parse(Kind kind, const Problem& problem) {
  Settings settings;
  settings.kind = kind;
  const Problem named{std::string(name_of(kind)), problem.fields};
  row::Shape& shape = settings.shape;
  if (kind == Kind::combine) {
    row::check_names(named, fields_of(kind), {"rows", "shards", "vocab_size"});
    settings.shards = row::integer_between(problem, "shards", 1, 1, 1 << 20);
    settings.vocab_size = row::integer_between(problem, "vocab_size", 1, 1, row::max_cols);
    shape.cols = 1;
  } else {
    row::check_names(named, fields_of(kind), {"rows", "cols"});
    shape.cols = row::integer_between(problem, "cols", 1, 1, row::max_cols);
  }
  shape.rows = row::integer_between(problem, "rows", 0, 0, any);
  shape.input = row::float_dtype_field(problem, "dtype", DType::f32);
  settings.target = row::word_at(problem, "target_dtype", target_words, 0) == 0 ? DType::i64 : DType::i32;
  shape.in[0].stride = stride_of(problem, "logits_row_stride", shape.cols);
  shape.in[0].alignment = row::alignment_field(problem, "logits_alignment", shape.input);
  row::check_extent("logits", shape.rows, shape.in[0].stride, shape.input);
  parse_gradient(problem, settings);
  shape.writes = settings.has_gradient();

  if (kind != Kind::combine) {
    settings.vocab_start = row::integer_between(problem, "vocab_start", 0, 0, row::max_cols - 1);
    settings.vocab_size = row::integer_between(problem, "vocab_size", settings.vocab_start + shape.cols,
                                               settings.vocab_start + shape.cols, row::max_cols);
  }
  settings.ignore_index = row::integer_between(problem, "ignore_index", -100, std::numeric_limits<std::int64_t>::min(), any);
  settings.label_smoothing = row::real_between(problem, "label_smoothing", 0, 0, 1);
  settings.z_loss = row::real_between(problem, "z_loss", 0, 0, 1e6);
  settings.scale = row::real_between(problem, "scale", 1, 1e-6, 1e6);
  settings.softcap = row::real_between(problem, "softcap", 0, 0, 1e6);
  if (settings.softcap != 0 && settings.softcap < 1e-3)
    throw Error(ErrorCode::invalid_argument, "softcap is ", text(Value(settings.softcap)),
                "; allowed: 0, or 0.001 to 1000000");
  settings.reduction = static_cast<Reduction>(row::word_at(problem, "reduction", reduction_words, 0));
  settings.weight = flag(problem, "weight");
  settings.nll = flag(problem, "nll");
  settings.predicted = flag(problem, "predicted");
  settings.correct = flag(problem, "correct");
  settings.check_targets = flag(problem, "check_targets");
  shape.keeps_exponentials = settings.has_gradient() && settings.scale == 1 && settings.softcap == 0;
  shape.more_registers = (settings.has_gradient() ? 4 : 0) + (settings.label_smoothing != 0 ? 12 : 0) +
                         (settings.softcap != 0 ? 12 : 0) + (settings.weight && settings.label_smoothing != 0 ? 8 : 0) +
                         (settings.predicted || settings.correct ? 6 : 0);
  // A warp's part of a row is two floats there.
  shape.streams = kind == Kind::loss && settings.has_gradient() && settings.label_smoothing == 0 && !settings.finds_class();
  if (kind == Kind::backward) {
    const std::size_t fallback = settings.reduction == Reduction::none ? 1 : 0;
    settings.upstream =
        row::word_at(problem, "dloss", backward_upstream_words, fallback) == 0 ? Upstream::scalar : Upstream::row;
    if (settings.vocab_size != shape.cols && settings.weight && settings.label_smoothing > 0)
      throw Error(ErrorCode::invalid_argument, "label_smoothing with weight needs the weights of all classes; cols is ",
                  shape.cols, " of vocab_size ", settings.vocab_size);
    if (settings.vocab_size != shape.cols && settings.weight && settings.reduction == Reduction::mean)
      throw Error(ErrorCode::invalid_argument, "reduction mean with weight needs the weights of all classes; cols is ",
                  shape.cols, " of vocab_size ", settings.vocab_size, ": divide dloss and use reduction sum");
  } else {
    settings.upstream = static_cast<Upstream>(row::word_at(problem, "dloss", upstream_words, 0));
    if (settings.upstream != Upstream::none && !settings.has_gradient())
      throw Error(ErrorCode::invalid_argument, "dloss is ", upstream_words[static_cast<std::size_t>(settings.upstream)],
                  ", but gradient is none; expected a gradient, or no dloss");
  }
  if (settings.upstream == Upstream::row && settings.reduced())
    throw Error(ErrorCode::invalid_argument, "dloss is row, but reduction is ",
                reduction_words[static_cast<std::size_t>(settings.reduction)], ": one loss has one dloss, scalar");
  return settings;
}

Problem to_problem(const Settings& settings) {
  const row::Shape& shape = settings.shape;
  const Kind kind = settings.kind;
  Problem problem{std::string(name_of(kind)), {{"rows", shape.rows}}};
  Fields& fields = problem.fields;
  const auto word = [&](std::string_view field, std::string_view value) { fields.set(field, std::string(value)); };
  if (kind == Kind::combine) {
    fields.set("shards", settings.shards);
  } else {
    fields.set("cols", shape.cols);
    word("dtype", name(shape.input));
  }
  word("target_dtype", name(settings.target));
  if (kind == Kind::loss || kind == Kind::backward) word("out_dtype", name(shape.output));
  if (kind != Kind::combine) {
    fields.set("logits_row_stride", shape.in[0].stride);
    if (kind != Kind::shard) fields.set("dlogits_row_stride", shape.out.stride);
    fields.set("logits_alignment", shape.in[0].alignment);
    if (kind != Kind::shard) fields.set("dlogits_alignment", shape.out.alignment);
  }
  if (kind == Kind::loss) word("gradient", gradient_words[static_cast<std::size_t>(settings.gradient)]);
  if (kind == Kind::backward) fields.set("in_place", std::int64_t{shape.in_place});
  if (kind == Kind::combine) fields.set("vocab_size", settings.vocab_size);
  if ((kind == Kind::backward || kind == Kind::shard) && settings.vocab_size != shape.cols) {
    fields.set("vocab_start", settings.vocab_start);
    fields.set("vocab_size", settings.vocab_size);
  }

  const auto integer = [&](std::string_view field, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) fields.set(field, value);
  };
  const auto real = [&](std::string_view field, double value, double fallback) {
    if (value != fallback) fields.set(field, value);
  };
  integer("ignore_index", settings.ignore_index, -100);
  real("label_smoothing", settings.label_smoothing, 0);
  real("z_loss", settings.z_loss, 0);
  real("scale", settings.scale, 1);
  real("softcap", settings.softcap, 0);
  if (settings.reduction != Reduction::mean)
    word("reduction", reduction_words[static_cast<std::size_t>(settings.reduction)]);
  integer("weight", settings.weight ? 1 : 0, 0);
  const bool usual =
      kind == Kind::backward && (settings.upstream == Upstream::row) == (settings.reduction == Reduction::none);
  if (settings.upstream != Upstream::none && !usual)
    word("dloss", upstream_words[static_cast<std::size_t>(settings.upstream)]);
  integer("nll", settings.nll ? 1 : 0, 0);
  integer("predicted", settings.predicted ? 1 : 0, 0);
  integer("correct", settings.correct ? 1 : 0, 0);
  integer("check_targets", settings.check_targets ? 1 : 0, 0);
  return problem;
}

std::string Settings::semantics() const {
  std::string text = kind == Kind::combine ? "" : shape.semantics();
  const auto add = [&](bool present, std::string_view what) {
    if (present) text += (text.empty() ? "" : ",") + std::string(what);
  };
  add(true, std::string("targets=") + std::string(name(target)));
  add(has_gradient(), "gradient");
  add(label_smoothing != 0, "smoothing");
  add(z_loss != 0, "z_loss");
  add(scale != 1, "scaled");
  add(softcap != 0, "softcap");
  add(reduced(), "reduced");
  add(weight, "weight");
  add(nll, "nll");
  add(finds_class(), "class");
  return text;
}

std::vector<ArrayInfo> arrays_of(const Settings& settings) {
  const row::Shape& shape = settings.shape;
  std::vector<ArrayInfo> arrays;
  const auto matrix = [&](const char* name, bool output, DType dtype, const row::Rows& rows) {
    arrays.push_back({.name = name,
                      .input = !output,
                      .output = output,
                      .dtype = dtype,
                      .shape = {shape.rows, shape.cols},
                      .strides = {rows.stride, 1},
                      .alignment = rows.alignment});
    if (output && shape.in_place) arrays.back().in_place_of = "logits";
  };
  const auto vector = [&](const char* name, bool output, DType dtype, std::int64_t elements) {
    arrays.push_back({.name = name,
                      .input = !output,
                      .output = output,
                      .dtype = dtype,
                      .shape = {elements},
                      .strides = {1},
                      .alignment = size_of(dtype)});
  };
  const auto parts = [&](bool output) {
    arrays.push_back({.name = "parts",
                      .input = !output,
                      .output = output,
                      .dtype = DType::f32,
                      .shape = {settings.kind == Kind::shard ? shape.rows : settings.shards * shape.rows, 8},
                      .strides = {8, 1},
                      .alignment = 16});
  };
  if (settings.kind == Kind::combine)
    parts(false);
  else
    matrix("logits", false, shape.input, shape.in[0]);
  vector("targets", false, settings.target, shape.rows);
  const std::int64_t upstream = settings.upstream == Upstream::row ? shape.rows : 1;
  if (settings.kind == Kind::backward) {
    vector("lse", false, DType::f32, shape.rows);
    vector("dloss", false, DType::f32, upstream);
    if (settings.nll) vector("nll", false, DType::f32, shape.rows);
    if (settings.weight) vector("weight", false, DType::f32, shape.cols);
    matrix("dlogits", true, shape.output, shape.out);
    return arrays;
  }
  if (settings.weight && settings.kind != Kind::combine) vector("weight", false, DType::f32, shape.cols);
  if (settings.kind == Kind::shard) {
    parts(true);
    return arrays;
  }
  if (settings.upstream != Upstream::none) vector("dloss", false, DType::f32, upstream);
  const std::int64_t losses = settings.reduced() ? 1 : shape.rows;
  vector("loss", true, DType::f32, losses);
  vector("lse", true, DType::f32, shape.rows);
  if (settings.z_loss != 0) vector("z_loss", true, DType::f32, losses);
  if (settings.nll) vector("nll", true, DType::f32, shape.rows);
  if (settings.predicted) vector("predicted", true, settings.target, shape.rows);
  if (settings.correct) vector("correct", true, DType::i64, 1);
  if (settings.check_targets) vector("bad_targets", true, DType::i64, 2);
  if (settings.has_gradient()) matrix("dlogits", true, shape.output, shape.out);
  return arrays;
}

}  // namespace tunesmith::cross_entropy
