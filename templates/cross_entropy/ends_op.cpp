#include "templates/cross_entropy/ends_op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "templates/config_values.h"
#include "templates/cross_entropy/problem.h"
#include "templates/half.h"
#include "templates/row/fields.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith::cross_entropy {
namespace {

// Must agree with cross_entropy_ends.cuh; the generated source asserts the sizes.
struct DivisorParams {
  std::uint64_t targets, weight, dloss, divisor, gradient_scale;
  std::int64_t rows, cols, ignore_index;
};

struct ReduceParams {
  std::uint64_t losses, z_losses, divisor, loss, z_loss;
  std::int64_t rows;
};

constexpr int threads = 1024;  // totals_threads in cross_entropy_totals.cuh
constexpr std::int64_t max_rows_of_a_problem = std::int64_t{1} << 50;

std::int64_t rows_of(const Problem& problem) { return problem.fields.integer("rows"); }
bool has(const Problem& problem, const char* field) { return problem.fields.integer(field) != 0; }

DType target_dtype_of(const Problem& problem) {
  return problem.fields.word("target_dtype") == "i32" ? DType::i32 : DType::i64;
}

ArrayInfo vector_of(const char* name, DType dtype, std::int64_t elements, bool output) {
  return {.name = name,
          .input = !output,
          .output = output,
          .dtype = dtype,
          .shape = {elements},
          .strides = {1},
          .alignment = size_of(dtype)};
}

/// A field that is 0 or 1.
std::pair<std::string, Value> flag(const Problem& problem, const char* name) {
  return {name, row::integer_between(problem, name, 0, 0, 1)};
}

/// `offsets`: where each array of the problem has its address in the parameters.
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
  parts.main_template = "cross_entropy/ends.cuh";
  parts.specialized_for = {{"specialized for", "any number of rows"}};
  parts.constants = "static_assert(sizeof(tunesmith::" + params + ") == " + std::to_string(params_bytes) +
                    " && tunesmith::totals_threads == " + std::to_string(threads) +
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
  void compare(const char* array, const HostArray& found_in, double expected, double magnitude) {
    const double found = read_element(DType::f32, found_in.data, 0);
    if (std::isnan(expected) ? std::isnan(found) : found == expected) return;
    const double unit = spacing(DType::f32, std::max(std::fabs(expected), 1e-7 * magnitude));
    const double error = std::fabs(found - expected) / unit;
    if (std::isfinite(error)) result_.max_error = std::max(result_.max_error, error);
    if (!(error <= result_.allowed_error) && result_.first_failure.empty())
      result_.first_failure =
          std::string(array) + " is " + std::to_string(found) + ", reference " + std::to_string(expected);
    result_.passed = result_.first_failure.empty();
  }
  CheckResult result() const { return result_; }

 private:
  CheckResult result_;
};

/// In [0, 1), for element `i` of an array; arrays of an operation differ by the lengths of their names.
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

std::vector<FieldInfo> EndsOp::config_fields() const { return {{"variant", "the kernel; there is one", "", {"block"}}}; }

Config EndsOp::default_config(const Problem&, const DeviceInfo&) const { return {{{"variant", std::string("block")}}}; }

Config EndsOp::complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const {
  for (const auto& item : partial.fields)
    if (item.first != "variant")
      throw Error(ErrorCode::invalid_argument, "config field '", item.first, "' is not one of ", name(),
                  "; allowed: variant");
  Config config = partial.fields.empty() ? default_config(problem, device) : partial;
  if (const std::string reason = why_invalid(problem, device, config); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> EndsOp::search_space(const Problem& problem, const DeviceInfo& device, Effort) const {
  return {default_config(problem, device)};
}

std::string EndsOp::why_invalid(const Problem&, const DeviceInfo& device, const Config& config) const {
  try {
    if (config.fields.size() != 1) return "config '" + config.text() + "' needs variant and nothing else";
    word_of(config.fields, "variant", {"block"});
    if (device.max_threads_per_block < threads)
      return "it takes blocks of " + std::to_string(threads) + " threads; the device allows " +
             std::to_string(device.max_threads_per_block);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

Cost EndsOp::cost(const Problem& problem) const {
  Cost cost;
  for (const ArrayInfo& array : arrays(problem))
    (array.output ? cost.bytes_written : cost.bytes_read) += static_cast<double>(array.elements() * size_of(array.dtype));
  cost.flops = static_cast<double>(rows_of(problem));
  return cost;
}

Problem EndsOp::verification_problem(const Problem& problem) const {
  Problem small = problem;
  small.fields.set("rows", std::int64_t{5003});  // a number that no block divides
  return small;
}

std::vector<FieldInfo> DivisorOp::problem_fields() const {
  return {{"rows", "number of targets, from 0", "", {}},
          {"cols", "number of classes, from 1", "", {}},
          {"target_dtype", "element type of targets", "i64", {"i64", "i32"}},
          {"ignore_index", "target of rows that do not count", "-100", {}, true},
          {"weight", "1: an array has a weight for each class", "0", {}, true},
          {"dloss", "upstream gradient: none (1) or a scalar", "none", {"none", "scalar"}, true}};
}

Problem DivisorOp::normal(const Problem& problem) const {
  row::check_names({std::string(name()), problem.fields}, problem_fields(), {"rows", "cols"});
  const auto word = [&](const char* field, const char* fallback, const Words& allowed) {
    const std::string value = problem.fields.contains(field) ? problem.fields.word(field) : fallback;
    if (std::ranges::find(allowed, std::string_view(value)) == allowed.end())
      throw Error(ErrorCode::invalid_argument, field, " is '", value, "'; allowed: ", joined(allowed));
    return std::pair<std::string, Value>(field, value);
  };
  return {std::string(name()),
          {{"rows", row::integer_between(problem, "rows", 0, 0, max_rows_of_a_problem)},
           {"cols", row::integer_between(problem, "cols", 0, 1, row::max_cols)},
           word("target_dtype", "i64", {"i64", "i32"}),
           {"ignore_index", problem.fields.contains("ignore_index") ? problem.fields.integer("ignore_index") : -100},
           flag(problem, "weight"),
           word("dloss", "none", {"none", "scalar"})}};
}

std::vector<ArrayInfo> DivisorOp::arrays(const Problem& problem) const {
  std::vector<ArrayInfo> arrays{vector_of("targets", target_dtype_of(problem), rows_of(problem), false)};
  if (has(problem, "weight")) arrays.push_back(vector_of("weight", DType::f32, problem.fields.integer("cols"), false));
  if (problem.fields.word("dloss") == "scalar") arrays.push_back(vector_of("dloss", DType::f32, 1, false));
  arrays.push_back(vector_of("divisor", DType::f32, 1, true));
  arrays.push_back(vector_of("gradient_scale", DType::f32, 1, true));
  return arrays;
}

KeyParts DivisorOp::key(const Problem& problem) const {
  return {"targets=" + problem.fields.word("target_dtype") + ",weight=" + (has(problem, "weight") ? "1" : "0"),
          std::max<std::int64_t>(rows_of(problem), 1), 1};
}

SourceParts DivisorOp::source_parts(const Problem& problem, const Config&) const {
  const bool narrow = target_dtype_of(problem) == DType::i32;
  return source_of("cross_entropy_divisor", "DivisorParams", sizeof(DivisorParams), narrow ? "<int>" : "<tunesmith::int64>");
}

LaunchPlan DivisorOp::launch_plan(const Problem& problem, const Config&, const DeviceInfo&) const {
  const DivisorParams params{
      0, 0, 0, 0, 0, rows_of(problem), problem.fields.integer("cols"), problem.fields.integer("ignore_index")};
  std::vector<std::size_t> offsets{offsetof(DivisorParams, targets)};
  if (has(problem, "weight")) offsets.push_back(offsetof(DivisorParams, weight));
  if (problem.fields.word("dloss") == "scalar") offsets.push_back(offsetof(DivisorParams, dloss));
  offsets.push_back(offsetof(DivisorParams, divisor));
  offsets.push_back(offsetof(DivisorParams, gradient_scale));
  return plan_of("cross_entropy_divisor", params, arrays(problem), offsets);
}

void DivisorOp::fill_inputs(const Problem& problem, std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  const std::int64_t cols = problem.fields.integer("cols"), ignored = problem.fields.integer("ignore_index");
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i) {
      const double value = noise(seed, array, i);
      if (is_float(array.info.dtype))
        write_element(array.info.dtype, array.data, i, static_cast<float>(value + 0.5));
      else  // every eighth row is ignored, some are no class at all
        write_integer(array.info.dtype, array.data, i,
                      i % 8 == 7     ? ignored
                      : i % 97 == 41 ? cols
                                     : static_cast<std::int64_t>(value * static_cast<double>(cols)));
    }
  }
}

CheckResult DivisorOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t) const {
  const std::int64_t rows = rows_of(problem), cols = problem.fields.integer("cols");
  const HostArray& targets = arrays[0];
  const HostArray* const weight = find(arrays, "weight");
  const HostArray* const dloss = find(arrays, "dloss");
  Sum sum;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t target = read_integer(targets.info.dtype, targets.data, r);
    if (target == problem.fields.integer("ignore_index") || target < 0 || target >= cols) continue;
    const double term = weight != nullptr ? read_element(DType::f32, weight->data, target) : 1.0;
    sum.total += term;
    sum.magnitude += std::fabs(term);
  }
  Comparison comparison(rows);
  comparison.compare("divisor", *find(arrays, "divisor"), sum.total, sum.magnitude);
  const double upstream = dloss != nullptr ? read_element(DType::f32, dloss->data, 0) : 1.0;
  const double scale = sum.total == 0 ? 0.0 : upstream / sum.total;
  comparison.compare("gradient_scale", *find(arrays, "gradient_scale"), scale, std::fabs(scale));
  return comparison.result();
}

std::vector<FieldInfo> ReduceOp::problem_fields() const {
  return {{"rows", "number of losses, from 0", "", {}},
          {"z_losses", "1: a second array of losses is summed too", "0", {}, true},
          {"divisor", "1: the sums are divided by the value of an array", "0", {}, true}};
}

Problem ReduceOp::normal(const Problem& problem) const {
  row::check_names({std::string(name()), problem.fields}, problem_fields(), {"rows"});
  return {std::string(name()),
          {{"rows", row::integer_between(problem, "rows", 0, 0, max_rows_of_a_problem)},
           flag(problem, "z_losses"),
           flag(problem, "divisor")}};
}

std::vector<ArrayInfo> ReduceOp::arrays(const Problem& problem) const {
  const std::int64_t rows = rows_of(problem);
  std::vector<ArrayInfo> arrays{vector_of("losses", DType::f32, rows, false)};
  if (has(problem, "z_losses")) arrays.push_back(vector_of("z_losses", DType::f32, rows, false));
  if (has(problem, "divisor")) arrays.push_back(vector_of("divisor", DType::f32, 1, false));
  arrays.push_back(vector_of("loss", DType::f32, 1, true));
  if (has(problem, "z_losses")) arrays.push_back(vector_of("z_loss", DType::f32, 1, true));
  return arrays;
}

KeyParts ReduceOp::key(const Problem& problem) const {
  return {std::string("z_losses=") + (has(problem, "z_losses") ? "1" : "0"), std::max<std::int64_t>(rows_of(problem), 1), 1};
}

SourceParts ReduceOp::source_parts(const Problem&, const Config&) const {
  return source_of("cross_entropy_reduce", "ReduceParams", sizeof(ReduceParams), "");
}

LaunchPlan ReduceOp::launch_plan(const Problem& problem, const Config&, const DeviceInfo&) const {
  const ReduceParams params{0, 0, 0, 0, 0, rows_of(problem)};
  std::vector<std::size_t> offsets{offsetof(ReduceParams, losses)};
  if (has(problem, "z_losses")) offsets.push_back(offsetof(ReduceParams, z_losses));
  if (has(problem, "divisor")) offsets.push_back(offsetof(ReduceParams, divisor));
  offsets.push_back(offsetof(ReduceParams, loss));
  if (has(problem, "z_losses")) offsets.push_back(offsetof(ReduceParams, z_loss));
  return plan_of("cross_entropy_reduce", params, arrays(problem), offsets);
}

void ReduceOp::fill_inputs(const Problem&, std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i)
      write_element(DType::f32, array.data, i, static_cast<float>(12 * noise(seed, array, i) + 0.25));
  }
}

CheckResult ReduceOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t) const {
  const HostArray* const divisor = find(arrays, "divisor");
  const double by = divisor != nullptr ? read_element(DType::f32, divisor->data, 0) : 1.0;
  Comparison comparison(rows_of(problem));
  const auto compare = [&](const char* terms, const char* total) {
    const Sum sum = sum_of(*find(arrays, terms));
    comparison.compare(total, *find(arrays, total), sum.total / by, std::fabs(sum.magnitude / by));
  };
  compare("losses", "loss");
  if (has(problem, "z_losses")) compare("z_losses", "z_loss");
  return comparison.result();
}

}  // namespace tunesmith::cross_entropy
