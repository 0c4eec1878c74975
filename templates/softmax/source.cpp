// Kernels of the softmax family: template names and features.

#include "templates/row/source.h"

#include "templates/softmax/op.h"
#include "templates/softmax/reference.h"

namespace tunesmith {

row::Kernels ParsedSoftmax::kernels(const row::TypedConfig& config, const row::Shape& shape) const {
  using row::Variant;
  row::Kernels kernels;
  kernels.features = {{"Arithmetic", std::string(arithmetic_of(shape.output))}};
  if (shape.reads_two()) {
    kernels.files = "softmax/backward_";
    kernels.function = "softmax_backward";
    kernels.steps = shape.cost.logarithm ? "the sum of dy and the gradient" : "the sum of dy * y and the gradient";
    return kernels;
  }
  kernels.files = "softmax/";
  kernels.function = "softmax";
  kernels.steps = "the maximum, the sum of exponentials and the result";
  kernels.features.emplace_back("Function", shape.cost.logarithm ? "LogSoftmaxFunction" : "SoftmaxFunction");
  const bool exchanges = config.variant == Variant::cluster || config.variant == Variant::grid;
  kernels.resident_and = exchanges ? ", tunesmith::SoftmaxExchange" : ", void";
  return kernels;
}

}  // namespace tunesmith
