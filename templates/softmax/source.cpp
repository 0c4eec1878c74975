// Constants and entry points of the generated softmax family: all that differs between two sources of one variant.

#include "templates/row/source.h"

#include "templates/softmax/op.h"

namespace tunesmith {

SourceParts ParsedSoftmax::source_parts(const Config& config) const {
  using row::Variant;
  const row::TypedConfig typed = row::TypedConfig::parse(config);
  const row::Shape shape = typed.view(this->shape());
  const std::string family = shape.backward() ? "softmax_backward" : "softmax";
  const std::string folder = shape.backward() ? "softmax/backward_" : "softmax/";
  const std::string entry(op().name());

  SourceParts parts;
  parts.specialized_for = row::specialized_for(shape);
  parts.least_arch = row::least_arch(typed, shape);
  row::describe(typed, shape,
                shape.backward() ? "the sum that the gradient needs and the gradient"
                                 : "the maximum, the sum of exponentials and the result",
                parts);
  row::FeatureTypes types{{"Arithmetic", shape.output == DType::f32 ? "PreciseArithmetic" : "FastArithmetic"}};
  if (!shape.backward()) types.emplace_back("Function", shape.logarithm ? "LogSoftmaxFunction" : "SoftmaxFunction");
  parts.constants = row::constants(typed, shape, types);
  if (typed.holds_row()) {
    parts.main_template = folder + "resident.cuh";
    std::string arguments = "Types, shape, config, Group, Storage";
    const bool exchanges = typed.variant == Variant::cluster || typed.variant == Variant::grid;
    if (!shape.backward()) arguments += exchanges ? ", tunesmith::SoftmaxExchange" : ", void";
    parts.kernels = row::kernel(typed, entry, "RowParams", family + "_resident", arguments);
  } else {
    parts.main_template = folder + "tiled.cuh";
    const std::string arguments = "Types, shape, config";
    if (typed.variant == Variant::split)
      parts.kernels = row::kernel(typed, entry + "_sums", "RowParams", family + "_split_sums", arguments) + "\n" +
                      row::kernel(typed, entry, "RowParams", family + "_split", arguments);
    else
      parts.kernels = row::kernel(typed, entry, "RowParams", family + "_two_pass", arguments);
  }
  return parts;
}

}  // namespace tunesmith
