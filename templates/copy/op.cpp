#include "templates/copy/op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "templates/config_values.h"
#include "templates/folded_grid.h"
#include "templates/half.h"
#include "templates/row/fields.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// Must agree with CopyParams in copy.cuh; the generated source asserts the size.
struct Params {
  std::uint64_t input[2];
  std::uint64_t output;
  std::int64_t elements;
};

constexpr std::int64_t max_elements = std::int64_t{1} << 50;
constexpr std::int64_t read_tile = 8192;  // as in copy.cuh

struct Shape {
  std::int64_t elements;
  DType dtype;
  std::int64_t inputs;
  bool in_place, writes;

  explicit Shape(const Problem& problem)
      : elements(problem.fields.integer("elements")),
        dtype(parse_float_dtype(problem.fields.word("dtype"))),
        inputs(problem.fields.integer("inputs")),
        in_place(problem.fields.integer("in_place") != 0),
        writes(!problem.fields.contains("write") || problem.fields.integer("write") != 0) {}
  std::int64_t bytes() const noexcept { return elements * (inputs + (writes ? 1 : 0)) * size_of(dtype); }
  std::int64_t tiles() const noexcept { return (elements + read_tile - 1) / read_tile; }
};

Config config_of(std::int64_t threads, std::int64_t vectors, const std::string& load, const std::string& store) {
  return {{{"threads", threads}, {"vectors", vectors}, {"load", load}, {"store", store}}};
}

}  // namespace

std::vector<FieldInfo> CopyOp::problem_fields() const {
  return {{"elements", "elements of each array, from 0", "", {}},
          {"dtype", "element type", "f32", {"f32", "f16", "bf16"}},
          {"inputs", "1: y = a; 2: y = a + b", "1", {}},
          {"in_place", "1: y is a", "0", {}},
          {"write", "0: nothing is written but the maximum of every 8192 elements: a read", "1", {}}};
}

std::vector<FieldInfo> CopyOp::config_fields() const {
  return {{"variant", "the kernel; there is one", "", {"stretch"}},
          {"threads", "threads per block, a power of two from 32 to 1024", "", {}},
          {"vectors", "16-byte vectors that a thread has in flight from each array, a power of two up to 16", "", {}},
          {"load", "cache hint of the loads", "", load_words()},
          {"store", "cache hint of the stores", "", store_words()}};
}

Problem CopyOp::normalize(const Problem& problem) const {
  row::check_names({std::string(name()), problem.fields}, problem_fields(), {"elements"});
  const std::int64_t inputs = row::integer_between(problem, "inputs", 1, 1, 2);
  const std::int64_t in_place = row::integer_between(problem, "in_place", 0, 0, 1);
  const std::int64_t write = row::integer_between(problem, "write", 1, 0, 1);
  if (write == 0 && (inputs == 2 || in_place == 1))
    throw Error(ErrorCode::invalid_argument, "write is 0, but inputs is ", inputs, " and in_place ", in_place,
                "; a read has one input and is not in place");
  Problem normal{std::string(name()),
                 {{"elements", row::integer_between(problem, "elements", 0, 0, max_elements)},
                  {"dtype", std::string(tunesmith::name(row::float_dtype_field(problem, "dtype", DType::f32)))},
                  {"inputs", inputs},
                  {"in_place", in_place}}};
  if (write == 0) normal.fields.set("write", write);
  return normal;
}

std::vector<ArrayInfo> CopyOp::arrays(const Problem& problem) const {
  const Shape shape(problem);
  std::vector<ArrayInfo> arrays;
  const auto add = [&](const char* name, bool output) {
    arrays.push_back({.name = name,
                      .input = !output,
                      .output = output,
                      .dtype = shape.dtype,
                      .shape = {shape.elements},
                      .strides = {1},
                      .alignment = 16});
  };
  add("a", false);
  if (shape.inputs == 2) add("b", false);
  add("y", true);
  if (!shape.writes) {
    arrays.back().dtype = DType::f32;
    arrays.back().shape = {shape.tiles()};
  }
  if (shape.in_place) arrays.back().in_place_of = "a";
  return arrays;
}

KeyParts CopyOp::key(const Problem& problem) const {
  const Shape shape(problem);
  KeyParts parts;
  parts.semantics = std::string(tunesmith::name(shape.dtype)) + ",inputs=" + std::to_string(shape.inputs) +
                    ",in_place=" + (shape.in_place ? "1" : "0") + (shape.writes ? "" : ",read");
  parts.n_cols = shape.elements;
  parts.rows_bucket = 1;
  return parts;
}

Cost CopyOp::cost(const Problem& problem) const {
  const Shape shape(problem);
  const auto bytes = static_cast<double>(shape.elements * size_of(shape.dtype));
  return {bytes * static_cast<double>(shape.inputs), shape.writes ? bytes : static_cast<double>(4 * shape.tiles()),
          shape.inputs == 2 ? static_cast<double>(shape.elements) : 0.0};
}

Config CopyOp::default_config(const Problem& problem, const DeviceInfo& device) const {
  const Shape shape(problem);
  const bool large = shape.bytes() >= 4 * device.l2_bytes;
  Config config = config_of(256, large ? 1 : 4, large && device.arch.number() >= 80 ? "evict_last" : "plain", "plain");
  return complete_config(problem, device, config);
}

Config CopyOp::complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const {
  const std::vector<FieldInfo> known = config_fields();
  Config config{{{"variant", std::string("stretch")}}};
  const Config fallback = config_of(256, 1, "plain", "plain");
  for (const auto& [field, value] : fallback.fields) config.fields.set(field, value);
  for (const auto& item : partial.fields) {
    if (!config.fields.contains(item.first))
      throw Error(ErrorCode::invalid_argument, "config field '", item.first,
                  "' is not one of copy; allowed: variant, threads, vectors, load, store");
    config.fields.set(item.first, item.second);
  }
  if (const std::string reason = why_invalid(problem, device, config); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> CopyOp::search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const {
  std::vector<Config> space{default_config(problem, device)};
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
        if (why_invalid(problem, device, config).empty() && std::ranges::find(space, config) == space.end())
          space.push_back(std::move(config));
      }
  return space;
}

std::string CopyOp::why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const {
  try {
    const Fields& fields = config.fields;
    if (fields.size() != 5) return "config '" + fields.text() + "' needs variant, threads, vectors, load and store";
    word_of(fields, "variant", {"stretch"});
    const int threads = power_of_two_of(fields, "threads", 32, device.max_threads_per_block);
    const int vectors = power_of_two_of(fields, "vectors", 1, 16);
    const std::string load = word_of(fields, "load", load_words()), store = word_of(fields, "store", store_words());
    if (device.arch.number() < 80 && (load.starts_with("evict") || store.starts_with("evict")))
      return "eviction policies need sm_80 or later; the device is " + tunesmith::name(device.arch);
    if (Shape(problem).in_place && load == "no_allocate")
      return "load no_allocate reads through the read-only path, which in_place=1 rules out";
    const Shape shape(problem);
    if (!shape.writes && read_tile % (threads * vectors * (16 / size_of(shape.dtype))) != 0)
      return "so many vectors of so many threads are more than the " + std::to_string(read_tile) + " elements of a read";
    if (threads * (vectors * 4 * shape.inputs + 24) > device.registers_per_sm)
      return "so many vectors of so many threads do not fit into the registers";
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

SourceParts CopyOp::source_parts(const Problem& problem, const Config& config) const {
  const Shape shape(problem);
  const Fields& fields = config.fields;
  SourceParts parts;
  parts.main_template = "copy/copy.cuh";
  if (fields.word("load").starts_with("evict") || fields.word("store").starts_with("evict")) parts.least_arch = "sm_80";
  parts.specialized_for = {{"specialized for", std::string(tunesmith::name(shape.dtype)) +
                                                   (shape.inputs == 2 ? ", the sum of two arrays" : ", one array") +
                                                   (shape.writes ? "" : ", only read")},
                           {"elements", "any number, arrays aligned to 16 bytes"}};
  parts.constants =
      "using Element = " +
      (shape.dtype == DType::f32 ? std::string("float") : "tunesmith::" + std::string(tunesmith::name(shape.dtype))) +
      ";\n\nstatic constexpr tunesmith::CopyConfig config = {\n    .threads = " + text(*fields.find("threads")) +
      ",\n    .vectors = " + text(*fields.find("vectors")) + ",\n    .load = tunesmith::LoadHint::" + fields.word("load") +
      ",\n    .store = tunesmith::StoreHint::" + fields.word("store") + ",\n};\n\n" +
      "static_assert(sizeof(tunesmith::CopyParams) == " + std::to_string(sizeof(Params)) +
      ", \"the host fills the parameters by this layout\");\n";
  const std::string call = shape.writes ? "copy<Element, " + std::to_string(shape.inputs) + ", config>"
                                        : std::string("read_maxima<Element, config>");
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + text(*fields.find("threads")) +
                  ")\ncopy(const __grid_constant__ tunesmith::CopyParams params) {\n  tunesmith::" + call + "(params);\n}\n";
  return parts;
}

LaunchPlan CopyOp::launch_plan(const Problem& problem, const Config& config, const DeviceInfo&) const {
  const Shape shape(problem);
  LaunchPlan plan;
  const Params params{{0, 0}, 0, shape.elements};
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const std::vector<ArrayInfo> layouts = arrays(problem);
  for (std::size_t i = 0; i < layouts.size(); ++i)
    plan.pointers.push_back(
        {layouts[i].name,
         static_cast<std::uint32_t>(layouts[i].output ? offsetof(Params, output) : i * sizeof(std::uint64_t)),
         static_cast<std::uint32_t>(layouts[i].alignment), layouts[i].extent_bytes(), layouts[i].output, false,
         layouts[i].in_place_of.empty() ? -1 : 0});
  if (shape.elements == 0) return plan;
  const std::int64_t threads = config.fields.integer("threads");
  const std::int64_t per_block = threads * config.fields.integer("vectors") * (16 / size_of(shape.dtype));
  const std::int64_t blocks = shape.writes ? (shape.elements + per_block - 1) / per_block : shape.tiles();
  KernelLaunch launch;
  launch.entry = "copy";
  launch.grid = folded_grid(blocks);
  launch.block = {static_cast<std::uint32_t>(threads), 1, 1};
  plan.kernels.push_back(launch);
  return plan;
}

Problem CopyOp::verification_problem(const Problem& problem) const {
  Problem small = problem;
  small.fields.set("elements", std::int64_t{300007});  // a number that no block divides
  return small;
}

void CopyOp::fill_inputs(const Problem&, std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    if (!arrays[a].info.input) continue;
    std::uint64_t state = seed * 2 + a;
    for (std::int64_t i = 0; i < arrays[a].info.shape[0]; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      write_element(arrays[a].info.dtype, arrays[a].data, i, static_cast<float>(static_cast<int>(state >> 48) - 32768) / 64);
    }
  }
}

CheckResult CopyOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const Shape shape(problem);
  CheckResult result;
  result.error_unit = "ULP";
  if (!shape.writes) {
    result.checked_rows = result.total_rows = shape.tiles();
    for (std::int64_t tile = 0; tile < shape.tiles() && result.passed; ++tile) {
      double largest = -INFINITY;
      for (std::int64_t i = tile * read_tile; i < std::min(shape.elements, (tile + 1) * read_tile); ++i)
        largest = std::max(largest, read_element(shape.dtype, arrays[0].data, i));
      const double found = read_element(DType::f32, arrays[1].data, tile);
      result.passed = found == largest;
      if (!result.passed)
        result.first_failure =
            "y[" + std::to_string(tile) + "] is " + std::to_string(found) + ", expected " + std::to_string(largest);
    }
    return result;
  }
  result.allowed_error = shape.inputs == 1 ? 0.0 : 0.5;
  result.total_rows = shape.elements;
  // "Rows" are elements here; a caller who asks for few still gets a good sample.
  result.checked_rows = std::min(shape.elements, std::max<std::int64_t>(max_rows, 1 << 16));
  for (std::int64_t k = 0; k < result.checked_rows; ++k) {
    const std::int64_t i = result.checked_rows > 1 ? (shape.elements - 1) * k / (result.checked_rows - 1) : 0;
    double expected = read_element(shape.dtype, arrays[0].data, i);
    if (shape.inputs == 2) expected += read_element(shape.dtype, arrays[1].data, i);
    const double found = read_element(shape.dtype, arrays.back().data, i);
    const double error = std::fabs(found - expected) / spacing(shape.dtype, expected);
    result.max_error = std::max(result.max_error, error);
    if (!(error <= result.allowed_error) && result.first_failure.empty())
      result.first_failure =
          "y[" + std::to_string(i) + "] is " + std::to_string(found) + ", expected " + std::to_string(expected);
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
