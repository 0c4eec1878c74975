#include "templates/copy/op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "templates/config_values.h"
#include "templates/folded_grid.h"
#include "templates/half.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// Must agree with CopyParams in copy.cuh; the generated source asserts the size.
struct Params {
  std::uint64_t input[2];
  std::uint64_t output;
  std::int64_t elements;
};

constexpr std::int64_t read_tile = CopyProblem::read_tile;

Config config_of(std::int64_t threads, std::int64_t vectors, const std::string& load, const std::string& store) {
  return {{{"threads", threads}, {"vectors", vectors}, {"load", load}, {"store", store}}};
}

}  // namespace

void complete(CopyProblem& p) {
  if (!p.write && (p.inputs == 2 || p.in_place))
    throw Error(ErrorCode::invalid_argument, "write is 0, but inputs is ", p.inputs, " and in_place ", p.in_place ? 1 : 0,
                "; a read has one input and is not in place");
}

std::vector<FieldInfo> config_fields_of(const CopyProblem&) {
  return {{"variant", "the kernel; there is one", "", {"stretch"}},
          {"threads", "threads per block, a power of two from 32 to 1024", "", {}},
          {"vectors", "16-byte vectors that a thread has in flight from each array, a power of two up to 16", "", {}},
          {"load", "cache hint of the loads", "", load_words()},
          {"store", "cache hint of the stores", "", store_words()}};
}

KeyParts ParsedCopy::key() const {
  KeyParts parts;
  parts.semantics = std::string(tunesmith::name(shape_.dtype)) + ",inputs=" + std::to_string(shape_.inputs) +
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

Config ParsedCopy::default_config(const DeviceInfo& device) const {
  const bool large = shape_.bytes() >= 4 * device.l2_bytes;
  Config config = config_of(256, large ? 1 : 4, large && device.arch.number() >= 80 ? "evict_last" : "plain", "plain");
  return complete_config(device, config);
}

Config ParsedCopy::complete_config(const DeviceInfo& device, const Config& partial) const {
  Config config{{{"variant", std::string("stretch")}}};
  const Config fallback = config_of(256, 1, "plain", "plain");
  for (const auto& [field, value] : fallback.fields) config.fields.set(field, value);
  for (const auto& item : partial.fields) {
    if (!config.fields.contains(item.first))
      throw Error(ErrorCode::invalid_argument, "config field '", item.first,
                  "' is not one of copy; allowed: variant, threads, vectors, load, store");
    config.fields.set(item.first, item.second);
  }
  if (const std::string reason = why_invalid(device, config); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> ParsedCopy::search_space(const DeviceInfo& device, Effort effort) const {
  std::vector<Config> space{default_config(device)};
  const bool full = effort == Effort::full;
  const std::vector<std::pair<const char*, const char*>> quick_hints{
      {"plain", "plain"}, {"evict_last", "plain"}, {"streaming", "streaming"}};
  const std::vector<std::pair<const char*, const char*>> full_hints{
      {"plain", "plain"},     {"evict_last", "plain"},      {"streaming", "streaming"},    {"no_allocate", "plain"},
      {"plain", "streaming"}, {"no_allocate", "streaming"}, {"evict_last", "evict_first"}, {"evict_first", "plain"}};
  for (const std::int64_t threads :
       full ? std::vector<std::int64_t>{128, 256, 512, 1024} : std::vector<std::int64_t>{128, 256})
    for (const std::int64_t vectors : {1, 2, 4, 8})
      for (const auto& hints : full ? full_hints : quick_hints) {
        Config config{{{"variant", std::string("stretch")}}};
        for (const auto& item : config_of(threads, vectors, hints.first, hints.second).fields)
          config.fields.set(item.first, item.second);
        if (why_invalid(device, config).empty() && std::ranges::find(space, config) == space.end())
          space.push_back(std::move(config));
      }
  return space;
}

std::string ParsedCopy::why_invalid(const DeviceInfo& device, const Config& config) const {
  try {
    const Fields& fields = config.fields;
    if (fields.size() != 5) return "config '" + fields.text() + "' needs variant, threads, vectors, load and store";
    word_of(fields, "variant", {"stretch"});
    const int threads = power_of_two_of(fields, "threads", 32, device.max_threads_per_block);
    const int vectors = power_of_two_of(fields, "vectors", 1, 16);
    const std::string load = word_of(fields, "load", load_words()), store = word_of(fields, "store", store_words());
    if (device.arch.number() < 80 && (load.starts_with("evict") || store.starts_with("evict")))
      return "eviction policies need sm_80 or later; the device is " + tunesmith::name(device.arch);
    if (shape_.in_place && load == "no_allocate")
      return "load no_allocate reads through the read-only path, which in_place=1 rules out";
    if (!shape_.write && read_tile % (threads * vectors * (16 / size_of(shape_.dtype))) != 0)
      return "so many vectors of so many threads are more than the " + std::to_string(read_tile) + " elements of a read";
    if (threads * (vectors * 4 * shape_.inputs + 24) > device.registers_per_sm)
      return "so many vectors of so many threads do not fit into the registers";
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

SourceParts ParsedCopy::source_parts(const Config& config) const {
  const Fields& fields = config.fields;
  SourceParts parts;
  parts.main_template = "copy/copy.cuh";
  parts.algorithm = shape_.write ? "one read of each input and one write" : "one read; the maximum of each tile is written";
  parts.threads = "a thread has " + text(*fields.find("vectors")) + " loads of 16 bytes in flight";
  if (fields.word("load").starts_with("evict") || fields.word("store").starts_with("evict")) parts.least_arch = "sm_80";
  parts.specialized_for = {{"specialized for", std::string(tunesmith::name(shape_.dtype)) +
                                                   (shape_.inputs == 2 ? ", the sum of two arrays" : ", one array") +
                                                   (shape_.write ? "" : ", only read")},
                           {"elements", "any number, arrays aligned to 16 bytes"}};
  parts.constants =
      "using Element = " +
      (shape_.dtype == DType::f32 ? std::string("float") : "tunesmith::" + std::string(tunesmith::name(shape_.dtype))) +
      ";\n\nstatic constexpr tunesmith::CopyConfig config = {\n    .threads = " + text(*fields.find("threads")) +
      ",\n    .vectors = " + text(*fields.find("vectors")) + ",\n    .load = tunesmith::LoadHint::" + fields.word("load") +
      ",\n    .store = tunesmith::StoreHint::" + fields.word("store") + ",\n};\n\n" +
      "static_assert(sizeof(tunesmith::CopyParams) == " + std::to_string(sizeof(Params)) +
      ", \"the host fills the parameters by this layout\");\n";
  const std::string call = shape_.write ? "copy<Element, " + std::to_string(shape_.inputs) + ", config>"
                                        : std::string("read_maxima<Element, config>");
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + text(*fields.find("threads")) +
                  ")\ncopy(const __grid_constant__ tunesmith::CopyParams params) {\n  tunesmith::" + call + "(params);\n}\n";
  return parts;
}

LaunchPlan ParsedCopy::launch_plan(const Config& config, const DeviceInfo&) const {
  LaunchPlan plan;
  const Params params{{0, 0}, 0, shape_.elements};
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const std::vector<ArrayInfo> layouts = arrays();
  for (std::size_t i = 0; i < layouts.size(); ++i)
    plan.pointers.push_back(
        {layouts[i].name,
         static_cast<std::uint32_t>(layouts[i].output ? offsetof(Params, output) : i * sizeof(std::uint64_t)),
         static_cast<std::uint32_t>(layouts[i].alignment), layouts[i].extent_bytes(), layouts[i].output, false,
         layouts[i].in_place_of.empty() ? -1 : 0});
  if (shape_.elements == 0) return plan;
  const std::int64_t threads = config.fields.integer("threads");
  const std::int64_t per_block = threads * config.fields.integer("vectors") * (16 / size_of(shape_.dtype));
  const std::int64_t blocks = shape_.write ? (shape_.elements + per_block - 1) / per_block : shape_.tiles();
  KernelLaunch launch;
  launch.entry = "copy";
  launch.grid = folded_grid(blocks);
  launch.block = {static_cast<std::uint32_t>(threads), 1, 1};
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
        largest = std::max(largest, read_element(shape_.dtype, arrays[0].data, i));
      const double found = read_element(DType::f32, arrays[1].data, tile);
      result.passed = found == largest;
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
    const double error = std::fabs(found - expected) / spacing(shape_.dtype, expected);
    result.max_error = std::max(result.max_error, error);
    if (!(error <= result.allowed_error) && result.first_failure.empty())
      result.first_failure =
          "y[" + std::to_string(i) + "] is " + std::to_string(found) + ", expected " + std::to_string(expected);
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
