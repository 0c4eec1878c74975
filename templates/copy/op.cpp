#include "templates/copy/op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/half.h"
#include "templates/copy/params.cuh"
#include "templates/eviction.h"
#include "templates/folded_grid.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::int64_t read_tile = CopyProblem::read_tile;

}  // namespace

void describe(const CopyConfig& c, Description& d) {
  d.field("variant", c.variant, {.meaning = "the kernel; there is one", .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block", .range = {32, 1024}, .power_of_two = true, .required = true});
  d.field("vectors", c.vectors,
          {.meaning = "16-byte vectors that a thread has in flight from each array",
           .range = {1, 16},
           .power_of_two = true,
           .required = true});
  d.field("load", c.load, {.meaning = "cache hint of the loads", .required = true});
  d.field("store", c.store, {.meaning = "cache hint of the stores", .required = true});
}

CopyConfig CopyConfig::parse(const Config& config) { return read_config<CopyConfig>(config.fields); }
Config CopyConfig::to_config() const { return {config_fields(*this)}; }

namespace {

std::string why_not(const CopyConfig& config, const CopyProblem& problem, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  if (device.arch.number() < 80 && (is_eviction(config.load) || is_eviction(config.store)))
    return "eviction policies need sm_80 or later; the device is " + name(device.arch);
  if (problem.in_place && config.load == LoadHint::no_allocate)
    return "load no_allocate reads through the read-only path, which in_place=1 rules out";
  if (!problem.write && read_tile % (config.threads * config.vectors * (16 / size_of(problem.dtype))) != 0)
    return "threads x vectors of 16 bytes must divide the tile of " + std::to_string(read_tile) + " elements";
  if (config.threads * (config.vectors * 4 * problem.inputs + 24) > device.registers_per_sm)
    return "the vectors of all threads exceed the registers of a multiprocessor";
  return {};
}

}  // namespace

void complete(CopyProblem& p) {
  if (!p.write && (p.inputs == 2 || p.in_place))
    throw Error(ErrorCode::invalid_argument, "write is 0, but inputs is ", p.inputs, " and in_place ", p.in_place ? 1 : 0,
                "; a read has one input and is not in place");
}

std::vector<FieldInfo> config_fields_of(const CopyProblem&) { return config_infos<CopyConfig>(); }

KeyParts ParsedCopy::key() const {
  KeyParts parts;
  parts.problem_class = std::string(tunesmith::name(shape_.dtype)) + ",inputs=" + std::to_string(shape_.inputs) +
                        ",in_place=" + (shape_.in_place ? "1" : "0") + (shape_.write ? "" : ",read");
  parts.n_cols = shape_.elements;
  parts.rows_bucket = 1;
  return parts;
}

Cost ParsedCopy::cost() const {
  const auto bytes = static_cast<double>(shape_.elements * size_of(shape_.dtype));
  return {bytes * static_cast<double>(shape_.inputs), shape_.write ? bytes : static_cast<double>(4 * shape_.tiles()),
          shape_.inputs == 2 ? static_cast<double>(shape_.elements) : 0.0};
}

CopyConfig ParsedCopy::default_of(const DeviceInfo& device) const {
  const bool large = shape_.bytes() >= 4 * device.l2_bytes;
  CopyConfig config;
  config.vectors = large ? 1 : 4;
  if (suits_evict_last(shape_.bytes(), device)) config.load = LoadHint::evict_last;
  return config;
}

std::vector<Config> ParsedCopy::search_space(const DeviceInfo& device, Effort effort) const {
  std::vector<Config> space{default_config(device)};
  const bool full = effort == Effort::full, keeps = suits_evict_last(shape_.bytes(), device);
  using Hints = std::vector<std::pair<LoadHint, StoreHint>>;
  const Hints quick_hints{{LoadHint::plain, StoreHint::plain},
                          {LoadHint::evict_last, StoreHint::plain},
                          {LoadHint::streaming, StoreHint::streaming}};
  const Hints full_hints{{LoadHint::plain, StoreHint::plain},
                         {LoadHint::evict_last, StoreHint::plain},
                         {LoadHint::streaming, StoreHint::streaming},
                         {LoadHint::no_allocate, StoreHint::plain},
                         {LoadHint::plain, StoreHint::streaming},
                         {LoadHint::no_allocate, StoreHint::streaming},
                         {LoadHint::evict_last, StoreHint::evict_first},
                         {LoadHint::evict_first, StoreHint::plain}};
  for (const int threads : full ? std::vector<int>{128, 256, 512, 1024} : std::vector<int>{128, 256})
    for (const int vectors : {1, 2, 4, 8})
      for (const auto& [load, store] : full ? full_hints : quick_hints) {
        const CopyConfig typed{.threads = threads, .vectors = vectors, .load = load, .store = store};
        if (!why_not(typed, shape_, device).empty() || (load == LoadHint::evict_last && !keeps)) continue;
        if (Config config = typed.to_config(); std::ranges::find(space, config) == space.end())
          space.push_back(std::move(config));
      }
  return space;
}

std::string ParsedCopy::why_invalid_of(const DeviceInfo& device, const CopyConfig& config) const {
  return why_not(config, shape_, device);
}

SourceParts ParsedCopy::parts_of(const CopyConfig& typed) const {
  SourceParts parts;
  parts.includes = {"copy/copy.cuh"};
  parts.kernel = shape_.write ? "copy" : "read_maxima";
  parts.algorithm = shape_.write ? "one read of each input and one write" : "one read; the maximum of each tile is written";
  parts.threads = std::to_string(typed.vectors) + " 16-byte loads in flight per thread";
  if (is_eviction(typed.load) || is_eviction(typed.store)) parts.min_arch = "sm_80";
  parts.specialized_for = {{"specialized for", std::string(tunesmith::name(shape_.dtype)) +
                                                   (shape_.inputs == 2 ? ", sum of two arrays" : ", one array") +
                                                   (shape_.write ? "" : ", only read")},
                           {"elements", "any number, arrays aligned to 16 bytes"}};
  parts.constants =
      "using Element = " +
      (shape_.dtype == DType::f32 ? std::string("float") : "tunesmith::" + std::string(tunesmith::name(shape_.dtype))) +
      ";\n\nstatic constexpr tunesmith::CopyConfig config = {\n    .threads = " + std::to_string(typed.threads) +
      ",\n    .vectors = " + std::to_string(typed.vectors) + ",\n    .load = " + source_name(typed.load) +
      ",\n    .store = " + source_name(typed.store) + ",\n};\n\n" +
      "static_assert(sizeof(tunesmith::CopyParams) == " + std::to_string(sizeof(CopyParams)) +
      ", \"the host fills the parameters by this layout\");\n";
  const std::string inputs = shape_.write ? ", " + std::to_string(shape_.inputs) : "";
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(typed.threads) +
                  ")\ncopy(const __grid_constant__ tunesmith::CopyParams params) {\n  tunesmith::" + parts.kernel +
                  "<Element" + inputs + ", config>(params);\n}\n";
  return parts;
}

LaunchPlan ParsedCopy::plan_of(const CopyConfig& config, const DeviceInfo&) const {
  LaunchPlan plan;
  CopyParams params{};
  params.elements = shape_.elements;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const std::span<const ArrayInfo> layouts = array_view();
  for (std::size_t i = 0; i < layouts.size(); ++i)
    plan.pointers.push_back(
        {layouts[i].name,
         static_cast<std::uint32_t>(layouts[i].output ? offsetof(CopyParams, output) : i * sizeof(std::uint64_t)),
         static_cast<std::uint32_t>(layouts[i].alignment), layouts[i].extent_bytes(), layouts[i].output, false,
         layouts[i].in_place_of.empty() ? -1 : 0});
  if (shape_.elements == 0) return plan;
  const std::int64_t per_block = std::int64_t{config.threads} * config.vectors * (16 / size_of(shape_.dtype));
  const std::int64_t blocks = shape_.write ? (shape_.elements + per_block - 1) / per_block : shape_.tiles();
  KernelLaunch launch;
  launch.entry = "copy";
  launch.grid = folded_grid(blocks);
  launch.block = {static_cast<std::uint32_t>(config.threads), 1, 1};
  plan.kernels.push_back(launch);
  return plan;
}

Problem ParsedCopy::verification_problem() const {
  Problem small = problem();
  small.fields.set("elements", std::int64_t{300007});  // a number that no block divides
  return small;
}

void ParsedCopy::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    if (!arrays[a].info.input) continue;
    std::uint64_t state = seed * 2 + a;
    for (std::int64_t i = 0; i < arrays[a].info.shape[0]; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      write_element(arrays[a].info.dtype, arrays[a].data, i, static_cast<float>(static_cast<int>(state >> 48) - 32768) / 64);
    }
  }
}

CheckResult ParsedCopy::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  CheckResult result;
  result.error_unit = "ULP";
  if (!shape_.write) {
    result.checked_rows = result.total_rows = shape_.tiles();
    for (std::int64_t tile = 0; tile < shape_.tiles() && result.passed; ++tile) {
      double largest = -INFINITY;
      for (std::int64_t i = tile * read_tile; i < std::min(shape_.elements, (tile + 1) * read_tile); ++i)
        if (const double value = read_element(shape_.dtype, arrays[0].data, i); !(value <= largest) && !std::isnan(largest))
          largest = value;  // the first NaN stays
      const double found = read_element(DType::f32, arrays[1].data, tile);
      result.passed = units_apart(DType::f32, found, largest) == 0;
      if (!result.passed)
        result.first_failure =
            "y[" + std::to_string(tile) + "] is " + std::to_string(found) + ", expected " + std::to_string(largest);
    }
    return result;
  }
  result.allowed_error = shape_.inputs == 1 ? 0.0 : 0.5;
  result.total_rows = shape_.elements;
  // "Rows" are elements here; a caller who asks for few still gets a good sample.
  result.checked_rows = std::min(shape_.elements, std::max<std::int64_t>(max_rows, 1 << 16));
  for (std::int64_t k = 0; k < result.checked_rows; ++k) {
    const std::int64_t i = result.checked_rows > 1 ? (shape_.elements - 1) * k / (result.checked_rows - 1) : 0;
    double expected = read_element(shape_.dtype, arrays[0].data, i);
    if (shape_.inputs == 2) expected += read_element(shape_.dtype, arrays[1].data, i);
    const double found = read_element(shape_.dtype, arrays.back().data, i);
    const double error = units_apart(shape_.dtype, found, expected);
    result.max_error = std::max(result.max_error, error);
    if (!(error <= result.allowed_error) && result.first_failure.empty())
      result.first_failure =
          "y[" + std::to_string(i) + "] is " + std::to_string(found) + ", expected " + std::to_string(expected);
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
