// Constants and entry point of a generated softmax: all that differs between two of them.

#include "templates/softmax/softmax_config.h"
#include "templates/softmax/softmax_op.h"

namespace tunesmith {
namespace {

std::string member(const std::string& name, const std::string& value) { return "    ." + name + " = " + value + ",\n"; }

std::string device_type(DType dtype) { return dtype == DType::f32 ? "float" : "tunesmith::" + std::string(name(dtype)); }

}  // namespace

SourceParts SoftmaxOp::source_parts(const Problem& problem, const Config& config) const {
  const softmax::Shape shape(problem);
  const softmax::TypedConfig typed = softmax::TypedConfig::parse(config);
  const std::string variant(softmax::name(typed.variant));
  const std::string vector = std::to_string(shape.vector());

  SourceParts parts;
  parts.main_template = "softmax/softmax_" + variant + ".cuh";
  const std::string starts = shape.shifted() ? "between two vectors of " + vector + ", in x and y alike"
                                             : "at multiples of " + vector + " elements";
  parts.specialized_for = {
      {"specialized for", "cols = " + std::to_string(shape.cols) + ", x " + std::string(tunesmith::name(shape.input)) +
                              ", y " + std::string(tunesmith::name(shape.output)) + (shape.in_place ? ", in place" : "")},
      {"rows", "any number, starting " + starts},
  };

  parts.constants = "using Input = " + device_type(shape.input) + ";\nusing Output = " + device_type(shape.output) + ";\n\n";
  parts.constants += "static constexpr tunesmith::SoftmaxShape shape = {\n" + member("cols", std::to_string(shape.cols)) +
                     member("vector", vector) + member("shifted", shape.shifted() ? "true" : "false") + "};\n\n";
  std::string type = "Softmax" + variant + "Config";
  type[7] = static_cast<char>(type[7] - 'a' + 'A');
  parts.constants += "static constexpr tunesmith::" + type + " config = {\n";
  const Config canonical = typed.to_config();
  for (const auto& [field, value] : canonical.fields) {
    if (field == "variant") continue;
    std::string qualifier;
    if (field == "load" || field == "load_again") qualifier = "tunesmith::LoadHint::";
    if (field == "store") qualifier = "tunesmith::StoreHint::";
    if (field == "registers") qualifier = "tunesmith::Registers::";
    parts.constants += member(field, qualifier + text(value));
  }
  parts.constants += "};\n\n";
  parts.constants += "static_assert(sizeof(tunesmith::SoftmaxParams) == " + std::to_string(softmax::params_bytes) +
                     ", \"the host fills the parameters by this layout\");\n";

  const int min_blocks =
      typed.variant == softmax::Variant::block || typed.variant == softmax::Variant::hybrid ? typed.min_blocks : 1;
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(typed.threads) + ", " +
                  std::to_string(min_blocks) + ")\n" + softmax::entry +
                  "(const __grid_constant__ tunesmith::SoftmaxParams params) {\n  tunesmith::softmax_" + variant +
                  "<Input, Output, shape, config>(params);\n}\n";
  return parts;
}

}  // namespace tunesmith
