// The kernels of the generated softmax family.

#include "templates/row/source.h"

#include "templates/softmax/op.h"

namespace tunesmith {

row::Kernels ParsedSoftmax::kernels(const row::TypedConfig& config, const row::Shape& shape) const {
  using row::Variant;
  row::Kernels kernels;
  kernels.features = {{"Arithmetic", shape.output == DType::f32 ? "PreciseArithmetic" : "FastArithmetic"}};
  if (shape.backward()) {
    kernels.files = "softmax/backward_";
    kernels.function = "softmax_backward";
    kernels.steps = "the sum that the gradient needs and the gradient";
    return kernels;
  }
  kernels.files = "softmax/";
  kernels.function = "softmax";
  kernels.steps = "the maximum, the sum of exponentials and the result";
  kernels.features.emplace_back("Function", shape.logarithm ? "LogSoftmaxFunction" : "SoftmaxFunction");
  const bool exchanges = config.variant == Variant::cluster || config.variant == Variant::grid;
  kernels.resident_and = exchanges ? ", tunesmith::SoftmaxExchange" : ", void";
  return kernels;
}

}  // namespace tunesmith
