#include "templates/softmax/op.h"

#include "templates/row/config.h"

namespace tunesmith {

std::vector<FieldInfo> config_fields_of(const SoftmaxProblem&) { return row::config_field_infos(); }
std::vector<FieldInfo> config_fields_of(const SoftmaxBackwardProblem&) { return row::config_field_infos(); }

Cost ParsedSoftmax::cost() const {
  const row::Shape& shape = this->shape();
  const double elements = static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
  // On average half of a causal row contributes, and only that half must be read.
  const double read = shape.options.causal ? elements / 2 : elements;
  Cost cost;
  cost.bytes_read = read * static_cast<double>(shape.inputs * size_of(shape.input));
  for (const ArrayInfo& array : array_view())
    if (array.name == "mask" || array.name == "valid_cols") cost.bytes_read += static_cast<double>(array.extent_bytes());
  cost.bytes_written = elements * static_cast<double>(size_of(shape.output));
  // Forward: subtract, exponential, add, multiply and the comparison for the maximum. Backward: two multiplications and two
  // additions, or one of each and an exponential.
  cost.flops = (shape.reads_two() ? 4 : 5) * elements;
  return cost;
}

}  // namespace tunesmith
