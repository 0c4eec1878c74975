#include "templates/cross_entropy/one_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/half.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith::cross_entropy {

OneBlockConfig OneBlockConfig::parse(const Config& config) {
  for (const auto& [field, value] : config.fields)
    if (field != "variant")
      throw Error(ErrorCode::invalid_argument, "config field '", field, "' does not exist; allowed: variant");
  const Value* const variant = config.fields.find("variant");
  if (variant == nullptr || text(*variant) != "block")
    throw Error(ErrorCode::invalid_argument, "config variant is ",
                variant == nullptr ? "missing" : "'" + text(*variant) + "'", "; allowed: block");
  return {};
}

std::vector<Config> OneBlockProblem::search_space(const DeviceInfo& device, Effort) const {
  return {default_config(device)};
}

std::string OneBlockProblem::why_invalid_of(const DeviceInfo& device, const OneBlockConfig&) const {
  if (device.max_threads_per_block < one_block::threads)
    return "it takes blocks of " + std::to_string(one_block::threads) + " threads; the device allows " +
           std::to_string(device.max_threads_per_block);
  return {};
}

Cost OneBlockProblem::cost() const {
  Cost cost;
  for (const ArrayInfo& array : arrays())
    (array.output ? cost.bytes_written : cost.bytes_read) += static_cast<double>(array.elements() * size_of(array.dtype));
  cost.flops = static_cast<double>(rows_);
  return cost;
}

Problem OneBlockProblem::verification_problem() const {
  Problem small = problem();
  small.fields.set("rows", std::int64_t{5003});  // a number that no block divides
  return small;
}

namespace one_block {

std::vector<FieldInfo> config_fields() { return {{"variant", "the kernel; there is one", "", {"block"}}}; }

LaunchPlan launch_plan(const char* entry, std::span<const std::byte> params, const std::vector<ArrayInfo>& arrays,
                       const std::vector<std::size_t>& offsets) {
  LaunchPlan plan;
  plan.params.assign(params.begin(), params.end());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    plan.pointers.push_back({arrays[i].name, static_cast<std::uint32_t>(offsets[i]),
                             static_cast<std::uint32_t>(arrays[i].alignment), arrays[i].extent_bytes(), arrays[i].output,
                             false});
  KernelLaunch launch;
  launch.entry = entry;
  launch.block = {threads, 1, 1};
  plan.kernels.push_back(launch);
  return plan;
}

SourceParts source(const std::string& entry, const std::string& params, std::size_t params_bytes,
                   const std::string& arguments) {
  SourceParts parts;
  parts.includes = {"cross_entropy/finalize.cuh"};
  parts.kernel = entry;
  parts.specialized_for = {{"specialized for", "any number of rows"}};
  parts.constants = "static_assert(sizeof(tunesmith::" + params + ") == " + std::to_string(params_bytes) +
                    " && tunesmith::reduction_threads == " + std::to_string(threads) +
                    ", \"the host launches and fills the parameters by this\");\n";
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ")\n" + entry +
                  "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + entry + arguments +
                  "(params);\n}\n";
  return parts;
}

void Comparison::compare(const char* array, const HostArray& found_in, double expected, double magnitude,
                         std::int64_t index) {
  const double found = read_element(DType::f32, found_in.data, index);
  if (units_apart(DType::f32, found, expected) == 0) return;
  const double unit = spacing(DType::f32, std::max(std::fabs(expected), 1e-7 * magnitude));
  const double error = std::fabs(found - expected) / unit;
  if (std::isfinite(error)) result_.max_error = std::max(result_.max_error, error);
  if (!(error <= result_.allowed_error) && result_.first_failure.empty())
    result_.first_failure = std::string(array) + "[" + std::to_string(index) + "] is " + std::to_string(found) +
                            ", reference " + std::to_string(expected);
  result_.passed = result_.first_failure.empty();
}
double noise(std::uint64_t seed, const HostArray& array, std::int64_t i) {
  return uniform(scramble(scramble(seed + array.info.name.size()) + static_cast<std::uint64_t>(i)));
}

}  // namespace one_block
}  // namespace tunesmith::cross_entropy
