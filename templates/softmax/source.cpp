// Constants and entry points of the generated softmax family: all that differs between two sources of one variant.

#include "templates/row/source.h"

#include "templates/softmax/op.h"

namespace tunesmith {

SourceParts SoftmaxOp::source_parts(const Problem& problem, const Config& config) const {
  using row::Variant;
  const row::TypedConfig typed = row::TypedConfig::parse(config);
  const row::Shape shape = typed.view(shape_of(problem));
  const std::string family = backward_ ? "softmax_backward" : "softmax",
                    folder = backward_ ? "softmax/backward_" : "softmax/";
  const std::string entry(name());

  SourceParts parts;
  parts.specialized_for = row::specialized_for(shape);
  parts.least_arch = row::least_arch(typed, shape);
  row::FeatureTypes types{{"Arithmetic", shape.output == DType::f32 ? "PreciseArithmetic" : "FastArithmetic"}};
  if (!backward_) types.emplace_back("Function", shape.logarithm ? "LogSoftmaxFunction" : "SoftmaxFunction");
  parts.constants = row::constants(typed, shape, types);
  if (typed.holds_row()) {
    parts.main_template = folder + "held.cuh";
    std::string arguments = "Types, shape, config, Team, Storage";
    if (!backward_)
      arguments +=
          (typed.variant == Variant::cluster || typed.variant == Variant::grid) ? ", tunesmith::SoftmaxMeeting" : ", void";
    parts.kernels = row::kernel(typed, entry, "RowParams", family + "_held", arguments);
  } else {
    parts.main_template = folder + "tiled.cuh";
    const std::string arguments = "Types, shape, config";
    if (typed.variant == Variant::split)
      parts.kernels = row::kernel(typed, entry + "_sums", "RowParams", family + "_split_sums", arguments) + "\n" +
                      row::kernel(typed, entry, "RowParams", family + "_split", arguments);
    else
      parts.kernels = row::kernel(typed, entry, "RowParams", family + "_online", arguments);
  }
  return parts;
}

}  // namespace tunesmith
