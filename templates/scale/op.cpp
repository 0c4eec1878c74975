#include "templates/scale/op.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/half.h"
#include "templates/sampling.h"
#include "templates/scale/params.cuh"
#include "tunesmith/error.h"

namespace tunesmith {

void describe(const ScaleConfig& c, Description& d) {
  d.field("variant", c.variant, {.meaning = "the kernel; there is one", .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block", .range = {32, 1024}, .power_of_two = true, .required = true});
  d.field(
      "vectors", c.vectors,
      {.meaning = "16-byte vectors that a thread has in flight", .range = {1, 8}, .power_of_two = true, .required = true});
}

ScaleConfig ScaleConfig::parse(const Config& config) { return read_config<ScaleConfig>(config.fields); }
Config ScaleConfig::to_config() const { return {config_fields(*this)}; }

std::vector<FieldInfo> config_fields_of(const ScaleProblem&) { return config_infos<ScaleConfig>(); }

KeyParts ParsedScale::key() const {
  KeyParts parts;
  parts.problem_class = std::string(tunesmith::name(p_.dtype));
  parts.n_cols = p_.elements;
  parts.rows_bucket = 1;
  return parts;
}

Cost ParsedScale::cost() const {
  const auto bytes = static_cast<double>(p_.elements * size_of(p_.dtype));
  return {bytes, bytes, static_cast<double>(p_.elements)};
}

std::string ParsedScale::why_invalid_of(const DeviceInfo& device, const ScaleConfig& config) const {
  return why_too_many(config.threads, device);
}

std::vector<Config> ParsedScale::search_space(const DeviceInfo& device, Effort) const { return {default_config(device)}; }

SourceParts ParsedScale::parts_of(const ScaleConfig& config) const {
  SourceParts parts;
  parts.includes = {"scale/scale.cuh"};
  parts.kernel = "scale";
  parts.algorithm = "one read and one write, or neither if the factor is 1";
  parts.threads = "a grid that fills the device strides over the array, " + std::to_string(config.vectors) +
                  " 16-byte loads in flight per thread";
  parts.specialized_for = {{"specialized for", std::string(tunesmith::name(p_.dtype))},
                           {"elements", "any number, aligned to 16 bytes"}};
  parts.constants =
      "using Element = " +
      (p_.dtype == DType::f32 ? std::string("float") : "tunesmith::" + std::string(tunesmith::name(p_.dtype))) +
      ";\n\nstatic constexpr tunesmith::ScaleConfig config = {\n    .threads = " + std::to_string(config.threads) +
      ",\n    .vectors = " + std::to_string(config.vectors) + ",\n};\n\n" +
      "static_assert(sizeof(tunesmith::ScaleParams) == " + std::to_string(sizeof(ScaleParams)) +
      ", \"the host fills the parameters by this layout\");\n";
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(config.threads) +
                  ")\nscale(const __grid_constant__ tunesmith::ScaleParams params) {\n  tunesmith::scale<Element, "
                  "config>(params);\n}\n";
  return parts;
}

LaunchPlan ParsedScale::plan_of(const ScaleConfig& config, const DeviceInfo& device) const {
  LaunchPlan plan;
  const std::int64_t per_block = std::int64_t{config.threads} * config.vectors * (16 / size_of(p_.dtype));
  const std::int64_t resident = std::int64_t{device.sm_count} * (device.max_threads_per_sm / config.threads);
  ScaleParams params{};
  params.elements = p_.elements;
  params.blocks = std::min((p_.elements + per_block - 1) / per_block, resident);
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const std::span<const ArrayInfo> layouts = array_view();
  const std::array<std::size_t, 2> offsets{offsetof(ScaleParams, x), offsetof(ScaleParams, factor)};
  for (std::size_t i = 0; i < layouts.size(); ++i)
    plan.pointers.push_back({layouts[i].name, static_cast<std::uint32_t>(offsets.at(i)),
                             static_cast<std::uint32_t>(layouts[i].alignment), layouts[i].extent_bytes(), layouts[i].output,
                             false});
  if (p_.elements == 0) return plan;
  KernelLaunch launch;
  launch.entry = "scale";
  launch.grid = {static_cast<std::uint32_t>(params.blocks), 1, 1};
  launch.block = {static_cast<std::uint32_t>(config.threads), 1, 1};
  plan.kernels.push_back(launch);
  return plan;
}

Problem ParsedScale::verification_problem() const {
  Problem small = problem();
  small.fields.set("elements", std::int64_t{300007});  // a number that no block divides
  return small;
}

void ParsedScale::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (std::int64_t i = 0; i < p_.elements; ++i)
    write_element(p_.dtype, arrays[0].data, i,
                  static_cast<float>(8 * uniform(scramble(seed + static_cast<std::uint64_t>(i))) - 4));
  write_element(DType::f32, arrays[1].data, 0, 1.625f);
}

CheckResult ParsedScale::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  CheckResult result;
  result.error_unit = "ULP";
  result.allowed_error = 0.51;  // of a product rounded to float32 and then to 16 bits
  result.total_rows = p_.elements;
  // "Rows" are elements here; a caller who asks for few still gets a good sample.
  result.checked_rows = std::min(p_.elements, std::max<std::int64_t>(max_rows, 1 << 16));
  const double factor = read_element(DType::f32, arrays[1].data, 0);
  for (std::int64_t k = 0; k < result.checked_rows; ++k) {
    const std::int64_t i = result.checked_rows > 1 ? (p_.elements - 1) * k / (result.checked_rows - 1) : 0;
    const double expected = factor * read_element(p_.dtype, arrays[0].before, i);
    const double found = read_element(p_.dtype, arrays[0].data, i);
    const double error = units_apart(p_.dtype, found, expected);
    result.max_error = std::max(result.max_error, error);
    if (!(error <= result.allowed_error) && result.first_failure.empty())
      result.first_failure =
          "x[" + std::to_string(i) + "] is " + std::to_string(found) + ", expected " + std::to_string(expected);
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
