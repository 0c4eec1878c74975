// Problems of the cross-entropy family: checks that concern several fields, and the kernels' shapes.

#include "templates/cross_entropy/problem.h"

#include <algorithm>

#include "templates/cross_entropy/op.h"
#include "templates/row/empty_rows.h"
#include "templates/row/x_to_y.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Returns the arrays of a problem whose columns are not adjacent.
template <typename Problem>
strided::Shape strided_shape(const Problem& p, bool writes, bool in_place) {
  strided::Shape shape;
  shape.rows = p.rows;
  shape.cols = p.cols;
  shape.inner = p.inner;
  shape.in_place = in_place;
  shape.writes = writes;
  shape.in[0] = {"logits", p.dtype, *p.logits_row_stride, *p.logits_col_stride, p.logits_inner_stride, p.logits_alignment};
  shape.out = shape.in[0];
  if (writes)
    shape.out = {"dlogits",          p.output(), *p.dlogits_row_stride, *p.dlogits_col_stride, p.dlogits_inner_stride,
                 p.dlogits_alignment};
  return shape;
}

template <typename Problem>
void complete_in_place(Problem& p) {
  if (p.strided()) {
    const strided::Shape shape = strided_shape(p, true, true);
    return strided::complete_in_place(shape.in[0], p.logits_alignment, shape.out, p.dlogits_alignment);
  }
  if (p.output() != p.dtype || *p.logits_row_stride != *p.dlogits_row_stride)
    throw Error(ErrorCode::invalid_argument, "the gradient is written in place, but logits (", name(p.dtype),
                ", row stride ", *p.logits_row_stride, ") and dlogits (", name(p.output()), ", row stride ",
                *p.dlogits_row_stride, ") differ; both must agree");
  p.logits_alignment = p.dlogits_alignment = std::min(p.logits_alignment, p.dlogits_alignment);
}

void check_upstream(Upstream dloss, Reduction reduction) {
  if (dloss == Upstream::row && reduction != Reduction::none)
    throw Error(ErrorCode::invalid_argument, "dloss is row, but reduction is ", enum_name(reduction),
                ": one loss has one dloss, scalar");
}

}  // namespace

void complete(CrossEntropyProblem& p) {
  if (p.gradient != Gradient::none) row::check_wide(p.dtype, "out_dtype", p.output());
  if (p.strided() && p.gradient != Gradient::none)
    strided::check_output(strided_shape(p, true, false).out, p.rows, p.cols, p.inner);
  if (p.gradient == Gradient::in_place) complete_in_place(p);
  if (p.gradient == Gradient::none) {  // no field about dlogits matters then
    if (p.dloss != Upstream::none)
      throw Error(ErrorCode::invalid_argument, "dloss is ", enum_name(p.dloss),
                  ", but gradient is none; expected a gradient, or no dloss");
    p.out_dtype = p.dtype;
    p.dlogits_row_stride = row_elements(p.cols, p.inner);
    p.dlogits_col_stride = p.inner;
    p.dlogits_inner_stride = 1;
    p.dlogits_alignment = 16;
  }
  check_upstream(p.dloss, p.reduction);
}

void complete(CrossEntropyBackwardProblem& p) {
  row::check_wide(p.dtype, "out_dtype", p.output());
  if (p.strided()) strided::check_output(strided_shape(p, true, false).out, p.rows, p.cols, p.inner);
  if (p.in_place) complete_in_place(p);
  if (*p.vocab_size == p.cols) p.vocab_start = 0;
  if (*p.vocab_size != p.cols && p.weight && p.label_smoothing > 0)
    throw Error(ErrorCode::invalid_argument, "label_smoothing with weight needs the weights of all classes; cols is ",
                p.cols, " of vocab_size ", *p.vocab_size);
  if (*p.vocab_size != p.cols && p.weight && p.reduction == Reduction::mean)
    throw Error(ErrorCode::invalid_argument, "reduction mean with weight needs the weights of all classes; cols is ", p.cols,
                " of vocab_size ", *p.vocab_size, ": divide dloss and use reduction sum");
  check_upstream(*p.dloss, p.reduction);
}

void complete(CrossEntropyShardProblem&) {}
void complete(CrossEntropyCombineProblem&) {}

namespace cross_entropy {
namespace {

/// Converts the fields that all operations share.
template <typename Problem>
Settings common_settings(Kind kind, const Problem& p) {
  Settings settings;
  settings.kind = kind;
  settings.shape.rows = p.rows;
  settings.shape.cols = 1;
  settings.shape.out = settings.shape.in[0] = {1, 16};
  settings.shape.cost.writes = false;
  settings.target = p.target_dtype;
  settings.ignore_index = p.ignore_index;
  settings.label_smoothing = p.label_smoothing;
  settings.weight = p.weight;
  return settings;
}

/// Converts the fields about logits, without a gradient.
template <typename Problem>
Settings logits_settings(Kind kind, const Problem& p) {
  Settings settings = common_settings(kind, p);
  row::Shape& shape = settings.shape;
  shape.cols = settings.vocab_size = p.cols;
  shape.input = shape.output = p.dtype;
  shape.in[0] = shape.out = {*p.logits_row_stride, p.logits_alignment};
  settings.scale = p.scale;
  settings.softcap = p.softcap;
  return settings;
}

template <typename Problem>
void set_gradient(Settings& settings, const Problem& p, Gradient gradient) {
  row::Shape& shape = settings.shape;
  settings.gradient = gradient;
  shape.cost.writes = true;
  shape.in_place = gradient == Gradient::in_place;
  shape.output = p.output();
  shape.out = {*p.dlogits_row_stride, p.dlogits_alignment};
}

template <typename Problem>
void set_outputs(Settings& settings, const Problem& p) {
  settings.z_loss = p.z_loss;
  settings.reduction = p.reduction;
  settings.lse_low = p.lse_low;
  settings.nll = p.nll;
  settings.argmax = p.argmax;
  settings.num_correct = p.num_correct;
  settings.check_targets = p.check_targets;
  settings.mark_ignored = p.mark_ignored;
}

/// Makes a row of each position if columns are not adjacent.
template <typename Problem>
void set_positions(Settings& settings, const Problem& p) {
  if (!p.strided()) return;
  strided::Shape positions = strided_shape(p, settings.has_gradient(), settings.gradient == Gradient::in_place);
  settings.shape.rows = p.rows * p.inner;
  positions.max_vector = 4;
  // The sum, the target's logit and the row's factors; upper bounds of the kernels' needs.
  positions.more_registers = (settings.has_gradient() ? 6 : 4) + (settings.label_smoothing != 0 ? 3 : 0) +
                             (settings.softcap != 0 ? 2 : 0) + (settings.argmax || settings.num_correct ? 2 : 0);
  positions.reduction_bytes =
      12 + (settings.label_smoothing != 0 ? 8 : 0) + (settings.argmax || settings.num_correct ? 4 : 0);
  positions.part_bytes = 24;
  if (settings.wide()) {
    positions.reduction_bytes *= 2;
    positions.part_bytes *= 2;
  }
  settings.positions = positions;
}

/// Sets values that are derived from the rest and guide the choice of configurations.
Settings with_expectations(Settings settings) {
  row::Shape& shape = settings.shape;
  // With a gradient, exponentials replace the logits unless their derivative needs these.
  shape.cost.terms_once = !settings.has_gradient() || (settings.scale == 1 && settings.softcap == 0);
  shape.cost.more_registers = (settings.has_gradient() ? 4 : 0) + (settings.label_smoothing != 0 ? 12 : 0) +
                              (settings.softcap != 0 ? 12 : 0) + (settings.weight && settings.label_smoothing != 0 ? 8 : 0) +
                              (settings.argmax || settings.num_correct ? 6 : 0);
  const bool streams = settings.kind == Kind::loss && settings.has_gradient() && settings.label_smoothing == 0 &&
                       !settings.finds_class() && !settings.wide();
  shape.cost.streamed_part_bytes = streams ? 8 : 0;  // two floats
  shape.cost.min_streamed_cols = (200 << 10) / size_of(shape.input);
  if (settings.wide()) {
    shape.cost.more_registers *= 2;
    shape.cost.more_smem_bytes = 2048;  // partials of double
    shape.cost.exchanged_floats = 2 * (2 + (settings.label_smoothing != 0 ? 2 : 0) + (settings.finds_class() ? 1 : 0));
  }
  return settings;
}

}  // namespace

Settings settings_of(const CrossEntropyProblem& p) {
  Settings settings = logits_settings(Kind::loss, p);
  if (p.gradient != Gradient::none) set_gradient(settings, p, p.gradient);
  set_outputs(settings, p);
  settings.upstream = p.dloss;
  set_positions(settings, p);
  return with_expectations(settings);
}

Settings settings_of(const CrossEntropyBackwardProblem& p) {
  Settings settings = logits_settings(Kind::backward, p);
  set_gradient(settings, p, p.in_place ? Gradient::in_place : Gradient::separate);
  settings.vocab_start = p.vocab_start;
  settings.vocab_size = *p.vocab_size;
  settings.z_loss = p.z_loss;
  settings.reduction = p.reduction;
  settings.upstream = *p.dloss;
  settings.lse_low = p.lse_low;
  settings.nll = p.nll;
  settings.lse_gradient = p.dlse;
  set_positions(settings, p);
  settings.shape = row::without_empty_rows(settings.shape);
  if (settings.positions) settings.positions = row::without_empty_rows(*settings.positions);
  return with_expectations(settings);
}

Settings settings_of(const CrossEntropyShardProblem& p) {
  Settings settings = logits_settings(Kind::shard, p);
  settings.vocab_start = p.vocab_start;
  settings.vocab_size = *p.vocab_size;
  settings.argmax = p.argmax;
  return with_expectations(settings);
}

Settings settings_of(const CrossEntropyCombineProblem& p) {
  Settings settings = common_settings(Kind::combine, p);
  settings.shape.input = settings.shape.output = p.dtype;
  settings.shards = p.shards;
  settings.vocab_size = p.vocab_size;
  set_outputs(settings, p);
  return with_expectations(settings);
}

Cost cost_of(const Settings& settings, std::span<const ArrayInfo> arrays) {
  Cost cost;
  for (const ArrayInfo& array : arrays)
    (array.input ? cost.bytes_read : cost.bytes_written) +=
        static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
  const double elements = static_cast<double>(settings.shape.rows) * static_cast<double>(settings.shape.cols);
  // Comparison, subtraction, exponential, addition; the gradient adds a multiplication, or without the preceding sums also a
  // subtraction and an exponential.
  cost.flops = elements * (settings.kind == Kind::backward ? 3 : (settings.has_gradient() ? 5 : 4));
  return cost;
}

std::string Settings::problem_class() const {
  std::string text = kind == Kind::combine ? "" : positions ? positions->problem_class() : shape.problem_class();
  const auto add = [&](bool present, std::string_view what) {
    if (present) text += (text.empty() ? "" : ",") + std::string(what);
  };
  add(kind == Kind::combine && wide(), name(number()));
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
  add(lse_gradient, "dlse");
  return text;
}

}  // namespace cross_entropy
}  // namespace tunesmith
