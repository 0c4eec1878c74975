#include "templates/cross_entropy/finalize_op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "templates/cross_entropy/finalize_params.cuh"
#include "templates/cross_entropy/problem.h"
#include "templates/half.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith::cross_entropy {
namespace {

constexpr int threads = 1024;  // reduction_threads in cross_entropy/reduction.cuh

/// `offsets`: position of each array's address in the parameters.
template <typename Params>
LaunchPlan plan_of(const char* entry, const Params& params, const std::vector<ArrayInfo>& arrays,
                   const std::vector<std::size_t>& offsets) {
  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
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

SourceParts source_of(const std::string& entry, const std::string& params, std::size_t params_bytes,
                      const std::string& arguments) {
  SourceParts parts;
  parts.main_template = "cross_entropy/finalize.cuh";
  parts.specialized_for = {{"specialized for", "any number of rows"}};
  parts.constants = "static_assert(sizeof(tunesmith::" + params + ") == " + std::to_string(params_bytes) +
                    " && tunesmith::reduction_threads == " + std::to_string(threads) +
                    ", \"the host launches and fills the parameters by this\");\n";
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ")\n" + entry +
                  "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + entry + arguments +
                  "(params);\n}\n";
  return parts;
}

/// Compares single float32 values with float64 ones; `magnitude` is the sum of the absolute terms.
class Comparison {
 public:
  explicit Comparison(std::int64_t rows) {
    result_.error_unit = "ULP";
    result_.allowed_error = 2;
    result_.checked_rows = result_.total_rows = rows;
  }
  void compare(const char* array, const HostArray& found_in, double expected, double magnitude, std::int64_t index = 0) {
    const double found = read_element(DType::f32, found_in.data, index);
    if (std::isnan(expected) ? std::isnan(found) : found == expected) return;
    const double unit = spacing(DType::f32, std::max(std::fabs(expected), 1e-7 * magnitude));
    const double error = std::fabs(found - expected) / unit;
    if (std::isfinite(error)) result_.max_error = std::max(result_.max_error, error);
    if (!(error <= result_.allowed_error) && result_.first_failure.empty())
      result_.first_failure = std::string(array) + "[" + std::to_string(index) + "] is " + std::to_string(found) +
                              ", reference " + std::to_string(expected);
    result_.passed = result_.first_failure.empty();
  }
  CheckResult result() const { return result_; }

 private:
  CheckResult result_;
};

/// Returns a number in [0, 1) for element `i` of an array; arrays of an operation differ by the lengths of their names.
double noise(std::uint64_t seed, const HostArray& array, std::int64_t i) {
  return uniform(scramble(scramble(seed + array.info.name.size()) + static_cast<std::uint64_t>(i)));
}

struct Sum {
  double total = 0, magnitude = 0;
};

Sum sum_of(const HostArray& array) {
  Sum sum;
  for (std::int64_t i = 0; i < array.info.shape[0]; ++i) {
    const double value = read_element(array.info.dtype, array.data, i);
    sum.total += value;
    sum.magnitude += std::fabs(value);
  }
  return sum;
}

}  // namespace

std::vector<FieldInfo> config_fields_of(const DivisorProblem&) {
  return {{"variant", "the kernel; there is one", "", {"block"}}};
}
std::vector<FieldInfo> config_fields_of(const ReduceProblem&) {
  return {{"variant", "the kernel; there is one", "", {"block"}}};
}

Config ParsedEnd::default_config(const DeviceInfo&) const { return {{{"variant", std::string("block")}}}; }

Config ParsedEnd::complete_config(const DeviceInfo& device, const Config& partial) const {
  for (const auto& item : partial.fields)
    if (item.first != "variant")
      throw Error(ErrorCode::invalid_argument, "config field '", item.first, "' is not one of ", op().name(),
                  "; allowed: variant");
  Config config = partial.fields.empty() ? default_config(device) : partial;
  if (const std::string reason = why_invalid(device, config); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> ParsedEnd::search_space(const DeviceInfo& device, Effort) const { return {default_config(device)}; }

std::string ParsedEnd::why_invalid(const DeviceInfo& device, const Config& config) const {
  if (config.fields.size() != 1) return "config '" + config.text() + "' needs variant and nothing else";
  const Value* const variant = config.fields.find("variant");
  if (variant == nullptr || text(*variant) != "block")
    return "config variant is " + (variant == nullptr ? "missing" : "'" + text(*variant) + "'") + "; allowed: block";
  if (device.max_threads_per_block < threads)
    return "it takes blocks of " + std::to_string(threads) + " threads; the device allows " +
           std::to_string(device.max_threads_per_block);
  return {};
}

Cost ParsedEnd::cost() const {
  Cost cost;
  for (const ArrayInfo& array : arrays())
    (array.output ? cost.bytes_written : cost.bytes_read) += static_cast<double>(array.elements() * size_of(array.dtype));
  cost.flops = static_cast<double>(rows_);
  return cost;
}

Problem ParsedEnd::verification_problem() const {
  Problem small = problem();
  small.fields.set("rows", std::int64_t{5003});  // a number that no block divides
  return small;
}

KeyParts ParsedDivisor::key() const {
  return {"targets=" + std::string(name(p_.target_dtype)) + ",weight=" + (p_.weight ? "1" : "0") +
              (p_.scaled_weight ? ",scaled_weight=1" : ""),
          std::max<std::int64_t>(p_.rows, 1), 1};
}

SourceParts ParsedDivisor::source_parts(const Config&) const {
  const bool narrow = p_.target_dtype == DType::i32;
  return source_of("cross_entropy_divisor", "DivisorParams", sizeof(DivisorParams),
                   std::string("<") + (narrow ? "int" : "tunesmith::int64") + (p_.scaled_weight ? ", true>" : ", false>"));
}

LaunchPlan ParsedDivisor::launch_plan(const Config&, const DeviceInfo&) const {
  DivisorParams params{};
  params.rows = p_.rows;
  params.cols = p_.cols;
  params.ignore_index = p_.ignore_index;
  std::vector<std::size_t> offsets{offsetof(DivisorParams, targets)};
  if (p_.weight) offsets.push_back(offsetof(DivisorParams, weight));
  if (p_.dloss == Upstream::scalar) offsets.push_back(offsetof(DivisorParams, dloss));
  offsets.push_back(offsetof(DivisorParams, divisor));
  offsets.push_back(offsetof(DivisorParams, gradient_scale));
  if (p_.scaled_weight) offsets.push_back(offsetof(DivisorParams, scaled_weight));
  return plan_of("cross_entropy_divisor", params, arrays(), offsets);
}

void ParsedDivisor::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  const std::int64_t cols = p_.cols, ignored = p_.ignore_index;
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i) {
      const double value = noise(seed, array, i);
      if (is_float(array.info.dtype))
        write_element(array.info.dtype, array.data, i, static_cast<float>(value + 0.5));
      else  // every eighth row is ignored, and some targets are out of range
        write_integer(array.info.dtype, array.data, i,
                      i % 8 == 7     ? ignored
                      : i % 97 == 41 ? cols
                                     : static_cast<std::int64_t>(value * static_cast<double>(cols)));
    }
  }
}

CheckResult ParsedDivisor::check(std::span<const HostArray> arrays, std::int64_t) const {
  const std::int64_t rows = p_.rows, cols = p_.cols;
  const HostArray& targets = arrays[0];
  const HostArray* const weight = find(arrays, "weight");
  const HostArray* const dloss = find(arrays, "dloss");
  Sum sum;
  double counted = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t target = read_integer(targets.info.dtype, targets.data, r);
    if (target == p_.ignore_index || target < 0 || target >= cols) continue;
    const double term = weight != nullptr ? read_element(DType::f32, weight->data, target) : 1.0;
    sum.total += term;
    sum.magnitude += std::fabs(term);
    ++counted;
  }
  Comparison comparison(rows);
  if (p_.scaled_weight) {
    const HostArray& scaled = *find(arrays, "scaled_weight");
    for (std::int64_t c = 0; c < cols; ++c) {
      const double expected = read_element(DType::f32, weight->data, c) * counted / sum.total;
      comparison.compare("scaled_weight", scaled, expected, std::fabs(expected), c);
    }
    sum = {counted, counted};
  }
  comparison.compare("divisor", *find(arrays, "divisor"), sum.total, sum.magnitude);
  const double upstream = dloss != nullptr ? read_element(DType::f32, dloss->data, 0) : 1.0;
  const double scale = sum.total == 0 ? 0.0 : upstream / sum.total;
  comparison.compare("gradient_scale", *find(arrays, "gradient_scale"), scale, std::fabs(scale));
  return comparison.result();
}

KeyParts ParsedReduce::key() const {
  return {std::string("z_losses=") + (p_.z_losses ? "1" : "0"), std::max<std::int64_t>(p_.rows, 1), 1};
}

SourceParts ParsedReduce::source_parts(const Config&) const {
  return source_of("cross_entropy_reduce", "ReduceParams", sizeof(ReduceParams), "");
}

LaunchPlan ParsedReduce::launch_plan(const Config&, const DeviceInfo&) const {
  ReduceParams params{};
  params.rows = p_.rows;
  std::vector<std::size_t> offsets{offsetof(ReduceParams, losses)};
  if (p_.z_losses) offsets.push_back(offsetof(ReduceParams, z_losses));
  if (p_.divisor) offsets.push_back(offsetof(ReduceParams, divisor));
  offsets.push_back(offsetof(ReduceParams, loss));
  if (p_.z_losses) offsets.push_back(offsetof(ReduceParams, z_loss));
  return plan_of("cross_entropy_reduce", params, arrays(), offsets);
}

void ParsedReduce::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i)
      write_element(DType::f32, array.data, i, static_cast<float>(12 * noise(seed, array, i) + 0.25));
  }
}

CheckResult ParsedReduce::check(std::span<const HostArray> arrays, std::int64_t) const {
  const HostArray* const divisor = find(arrays, "divisor");
  const double by = divisor != nullptr ? read_element(DType::f32, divisor->data, 0) : 1.0;
  Comparison comparison(p_.rows);
  const auto compare = [&](const char* terms, const char* total) {
    const Sum sum = sum_of(*find(arrays, terms));
    comparison.compare(total, *find(arrays, total), sum.total / by, std::fabs(sum.magnitude / by));
  };
  compare("losses", "loss");
  if (p_.z_losses) compare("z_losses", "z_loss");
  return comparison.result();
}

}  // namespace tunesmith::cross_entropy
