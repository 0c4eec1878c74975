#include "templates/row_program/strided_op.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/hash.h"
#include "templates/row/params.cuh"
#include "templates/row_program/canonical.h"
#include "templates/row_program/emit.h"
#include "templates/row_program/op.h"
#include "templates/row_program/separate.h"
#include "templates/strided/source.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using row_program::Kind;
using row_program::Program;

template <typename Body>
void over_full_arrays(const Program& program, const Body& body) {
  for (const row_program::Input& input : program.inputs)
    if (input.kind == Kind::full) body(input.name, row_program::dtype_of(*input.type), false);
  for (const row_program::Output& output : program.outputs)
    if (output.kind == Kind::full) body(output.name, row_program::dtype_of(*output.type), true);
}

int largest_exchange(const Program& program) {
  int floats = 1;
  for (int stage = 1; stage <= program.stages; ++stage) floats = std::max(floats, exchanged_floats(program, stage));
  return floats;
}

/// The shape of an input and an output of the widest dtypes, whose alignment is what all arrays have.
strided::Shape strided_shape_of(const RowProgramProblem& problem, const Program& program) {
  strided::Shape shape;
  shape.rows = problem.rows;
  shape.cols = problem.cols;
  shape.inner = problem.inner;
  shape.in_place = !problem.in_place.empty();
  // A thread has the partial results of all positions of its vector.
  constexpr std::int64_t widest_vector = 16, most_floats = 32;
  const auto few =
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(most_floats / largest_exchange(program), 1)));
  std::int64_t aligned = std::min<std::int64_t>(widest_vector, static_cast<std::int64_t>(few)), inputs = 0;
  DType input = DType::i8, output = DType::i8;
  over_full_arrays(program, [&](const std::string& name, DType dtype, bool is_output) {
    const std::int64_t bytes = row_program::alignment_of(problem, name), element = size_of(dtype);
    const std::int64_t strides = std::gcd(row_program::stride_of(problem, name, Kind::full), problem.inner) * element;
    aligned = std::min(aligned, std::max<std::int64_t>(std::gcd(bytes, strides) / element, 1));
    if (!is_output) ++inputs;
    DType& widest = is_output ? output : input;
    if (size_of(dtype) > size_of(widest)) widest = dtype;
  });
  const auto array = [&](DType dtype) { return strided::Array{"", dtype, aligned, aligned, 1, 16}; };
  shape.inputs = static_cast<int>(std::clamp<std::int64_t>(inputs, 1, 2));
  shape.in = {array(input), array(input)};
  shape.out = array(output);
  return shape;
}

}  // namespace

ParsedStridedRowProgram::ParsedStridedRowProgram(const Op& op, const RowProgramProblem& problem)
    : StridedProblem(op, problem, strided_shape_of(problem, row_program::program_of(problem))),
      typed_(problem),
      program_(row_program::program_of(problem)),
      resident_program_(row_program::with_separate_stages(program_)) {}

KeyParts ParsedStridedRowProgram::key() const {
  KeyParts parts = StridedProblem::key();
  parts.problem_class += ",program=" + hash_hex(row_program::canonical_text(program_)).substr(0, 16);
  parts.related_class = shape().problem_class() + "," + row_program::cost_class(program_);
  return parts;
}

Cost ParsedStridedRowProgram::cost() const {
  const double elements =
      static_cast<double>(typed_.rows) * static_cast<double>(typed_.cols) * static_cast<double>(typed_.inner);
  Cost cost;
  over_full_arrays(program_, [&](const std::string&, DType dtype, bool output) {
    (output ? cost.bytes_written : cost.bytes_read) += elements * static_cast<double>(size_of(dtype));
  });
  cost.flops = elements * static_cast<double>(program_.nodes.size());
  return cost;
}

std::string ParsedStridedRowProgram::why_invalid(const DeviceInfo& device, const Config& config) const {
  if (std::string reason = StridedProblem::why_invalid(device, config); !reason.empty()) return reason;
  const auto typed = strided::TypedConfig::parse(config);
  if (typed.variant != strided::Variant::resident && typed.variant != strided::Variant::two_pass)
    return "variant is " + std::string(enum_name(typed.variant)) +
           "; allowed for a row program with inner: resident, two_pass";
  const Program& program = typed.reads_twice() ? program_ : resident_program_;
  const std::int64_t floats = largest_exchange(program), vector = shape().vector();
  constexpr std::int64_t float_bytes = 4;
  const std::int64_t groups = typed.lanes < 32 ? typed.threads / 32 : typed.members();
  const std::int64_t bytes = groups > 1 ? program.stages * groups * typed.lanes * vector * floats * float_bytes : 0;
  if (bytes > row::most_exchanged_bytes)
    return "the threads exchange " + std::to_string(bytes) + " bytes through shared memory; there are " +
           std::to_string(row::most_exchanged_bytes) + "; use fewer threads or lanes";
  if (typed.reads_twice()) return {};
  std::int64_t needed = 32 + vector * (floats + 4);
  over_full_arrays(program_, [&](const std::string&, DType dtype, bool output) {
    if (!output) needed += typed.columns(shape()) * ((vector * size_of(dtype) + 3) / 4);
  });
  const std::int64_t available = std::min(255, device.registers_per_sm / (typed.threads * typed.min_blocks));
  if (needed > available)
    return "resident with these settings needs about " + std::to_string(needed) + " registers a thread; there are " +
           std::to_string(available);
  return {};
}

/// The valid geometries of a variant, the best first.
std::vector<Config> ParsedStridedRowProgram::geometries(strided::Variant variant, const DeviceInfo& device) const {
  struct Rated {
    Config config;
    double score;
  };
  std::vector<Rated> all;
  constexpr int most_lanes = 256, most_threads = 1024;
  for (int lanes = 1; lanes <= most_lanes; lanes *= 2)
    for (int threads = std::max(lanes, 32); threads <= most_threads; threads *= 2) {
      strided::TypedConfig typed{.variant = variant, .threads = threads, .lanes = lanes};
      const Config config = typed.to_config();
      if (!why_invalid(device, config).empty()) continue;
      // Accesses of whole sectors, some columns in flight, and blocks for all multiprocessors.
      const auto at_most_one = [](double x) { return std::min(x, 1.0); };
      const double bytes = static_cast<double>(lanes * shape().vector() * size_of(shape().input()));
      const auto columns = static_cast<double>(typed.columns(shape())), idle = static_cast<double>(typed.members());
      const double used = at_most_one(static_cast<double>(typed_.cols) / (columns * idle));
      const double blocks = static_cast<double>(typed.tiles(shape())) / device.sm_count;
      const double busy = typed.reads_twice() ? at_most_one(threads / 256.0) : 1;
      constexpr double sectors = 64, in_flight = 4, many = 16, usual_threads = 256;
      all.push_back({config, at_most_one(bytes / sectors) * at_most_one(columns / in_flight) * at_most_one(many / columns) *
                                 used * busy * at_most_one(blocks) * at_most_one(std::sqrt(usual_threads / threads))});
    }
  std::ranges::stable_sort(all, std::ranges::greater(), &Rated::score);
  std::vector<Config> sorted;
  for (Rated& rated : all) sorted.push_back(std::move(rated.config));
  return sorted;
}

Config ParsedStridedRowProgram::default_config(const DeviceInfo& device) const {
  for (const strided::Variant variant : {strided::Variant::resident, strided::Variant::two_pass})
    if (const std::vector<Config> found = geometries(variant, device); !found.empty()) return found.front();
  throw Error(ErrorCode::unsupported, "no configuration of ", op().name(), " fits ", problem().text());
}

Config ParsedStridedRowProgram::complete_config(const DeviceInfo& device, const Config& partial) const {
  const Value* const variant = partial.fields.find("variant");
  Config config = default_config(device);
  for (const strided::Variant other : {strided::Variant::resident, strided::Variant::two_pass})
    if (variant != nullptr && *variant == Value(std::string(enum_name(other))))
      if (const std::vector<Config> found = geometries(other, device); !found.empty()) config = found.front();
  if (variant != nullptr && *variant != *config.fields.find("variant"))
    config = StridedProblem::complete_config(device, partial);
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  config = strided::TypedConfig::parse(config).to_config();
  if (const std::string reason = why_invalid(device, config); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> ParsedStridedRowProgram::search_space(const DeviceInfo& device, Effort effort) const {
  const std::size_t most = effort == Effort::full ? 12 : 4;
  std::vector<Config> space{default_config(device)};
  const auto add = [&](const Config& config) {
    if (why_invalid(device, config).empty() && std::ranges::find(space, config) == space.end()) space.push_back(config);
  };
  for (const strided::Variant variant : {strided::Variant::resident, strided::Variant::two_pass}) {
    std::vector<Config> found = geometries(variant, device);
    found.resize(std::min(found.size(), variant == strided::Variant::resident ? most : most / 2));
    for (const Config& config : found) add(config);
  }
  for (const Config& config : StridedProblem::search_space(device, effort)) add(config);
  return space;
}

strided::Kernels ParsedStridedRowProgram::kernels() const {
  strided::Kernels kernels;
  kernels.main_template = "row_program/strided.cuh";
  kernels.function = "row_program_strided";
  kernels.steps = "the stages of the program";
  return kernels;
}

row::OwnParams ParsedStridedRowProgram::own_params() const {
  row::OwnParams params = row_program::params_of(typed_, program_);
  const std::int64_t vector = shape().vector();
  params.integer("vectors", shape().vectors());
  params.integer("vectors_per_row", typed_.inner / vector);
  params.integer("inner", typed_.inner);
  return params;
}

SourceParts ParsedStridedRowProgram::source_parts(const Config& config) const {
  const auto typed = strided::TypedConfig::parse(config);
  const bool twice = typed.reads_twice();
  SourceParts parts = StridedProblem::source_parts(config);
  parts.specialized_for.front().second = row_program::arrays_text(program_, typed_.cols);
  parts.algorithm = twice ? std::to_string(program_.stages + 1) +
                                " reads of each input: a pass for every stage of reductions, and one that writes"
                          : "one read and one write: columns are resident in registers while the stages are computed";
  std::vector<std::string> columns;
  for (const row_program::Input& input : program_.inputs)
    if (input.kind == Kind::col) columns.push_back(row_program::column_type(*input.type, 1));
  const Program& program = twice ? program_ : resident_program_;
  std::string params = row_program::params_definition(program_);
  params.insert(params.rfind("};"), "  int64 vectors;\n  int64 vectors_per_row;\n  int64 inner;\n");
  parts.constants = "namespace tunesmith {\n\n" + params + row_program::program_definition(program, columns) +
                    "\n}  // namespace tunesmith\n\n" + parts.constants + own_params().assertions();
  parts.kernels = strided::kernel(
      typed.threads, typed.min_blocks, std::string(op().name()), "RowProgramParams",
      std::string("row_program_strided_") + (twice ? "two_pass" : "resident") + "<tunesmith::Program, shape, config>");
  return parts;
}

LaunchPlan ParsedStridedRowProgram::launch_plan(const Config& config, const DeviceInfo&) const {
  LaunchPlan plan;
  const row::OwnParams own = own_params();
  const std::span<const ArrayInfo> arrays = array_view();
  for (const ArrayInfo& array : arrays) {
    const auto in_place = std::ranges::find(arrays, array.in_place_of, &ArrayInfo::name);
    plan.pointers.push_back({array.name, own.offset_of(array.name).value(), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, false,
                             array.in_place_of.empty() ? -1 : static_cast<int>(in_place - arrays.begin())});
  }
  RowParams params{};
  params.rows = typed_.rows * typed_.inner;
  params.cols = static_cast<std::int32_t>(typed_.cols);
  params.groups = 1;
  bool first = true;
  over_full_arrays(program_, [&](const std::string& name, DType, bool) {
    if (first) params.input_stride[0] = row_program::stride_of(typed_, name, Kind::full);
    first = false;
  });
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.params.insert(plan.params.end(), own.bytes().begin(), own.bytes().end());
  strided::add_kernels(strided::TypedConfig::parse(config), shape(), std::string(op().name()), plan);
  return plan;
}

void ParsedStridedRowProgram::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  fill_row_program_inputs(typed_, false, seed, kind, arrays);
}

CheckResult ParsedStridedRowProgram::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return check_row_program(typed_, program_, arrays, max_rows);
}

}  // namespace tunesmith
