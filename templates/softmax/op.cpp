#include "templates/softmax/op.h"

#include <algorithm>
#include <bit>

#include "templates/row/config.h"
#include "templates/row/launch.h"
#include "tunesmith/error.h"

namespace tunesmith {

std::vector<FieldInfo> SoftmaxOp::config_fields() const { return row::config_field_infos(); }

KeyParts SoftmaxOp::key(const Problem& problem) const {
  const row::Shape shape = shape_of(problem);
  KeyParts parts;
  parts.semantics = shape.semantics();
  parts.n_cols = shape.cols;
  // From 65536 rows on every GPU is full whatever the configuration, and only cols matters.
  constexpr std::uint64_t full = 65536;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min<std::uint64_t>(shape.rows, full)));
  return parts;
}

Cost SoftmaxOp::cost(const Problem& problem) const {
  const row::Shape shape = shape_of(problem);
  const double elements = static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
  // A causal row takes part half on the average, and only that must be read.
  const double read = shape.options.causal ? elements / 2 : elements;
  Cost cost;
  cost.bytes_read = read * static_cast<double>(shape.inputs * size_of(shape.input));
  for (const ArrayInfo& array : arrays(problem))
    if (array.name == "mask" || array.name == "valid_cols") cost.bytes_read += static_cast<double>(array.extent_bytes());
  cost.bytes_written = elements * static_cast<double>(size_of(shape.output));
  // Forward: subtract, exponential, add, multiply and the comparison for the maximum. Backward: two multiplications and two
  // additions, or one of each and an exponential.
  cost.flops = (backward_ ? 4 : 5) * elements;
  return cost;
}

Config SoftmaxOp::default_config(const Problem& problem, const DeviceInfo& device) const {
  return row::default_config(shape_of(problem), device).to_config();
}

std::vector<Config> SoftmaxOp::search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const {
  return row::search_space(shape_of(problem), device, effort);
}

Config SoftmaxOp::complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const {
  return row::complete_config(partial, shape_of(problem), device);
}

std::string SoftmaxOp::why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const {
  try {
    return row::why_invalid(row::TypedConfig::parse(config), shape_of(problem), device);
  } catch (const Error& error) {
    return error.what();
  }
}

LaunchPlan SoftmaxOp::launch_plan(const Problem& problem, const Config& config, const DeviceInfo& device) const {
  return row::launch_plan(row::TypedConfig::parse(config), shape_of(problem), device, std::string(name()), arrays(problem));
}

}  // namespace tunesmith
