#include "templates/strided/strided_problem.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/half_octave.h"
#include "templates/folded_grid.h"
#include "templates/row/launch.h"
#include "templates/row/own_params.h"
#include "templates/row/params.cuh"
#include "templates/source_text.h"
#include "tunesmith/error.h"

namespace tunesmith::strided {
namespace {

row::OwnParams own_params(const Shape& shape) {
  const std::int64_t vector = shape.vector();
  const Array &first = shape.in[0], &second = shape.in[1], &out = shape.out;
  return row::OwnParams("StridedParams")
      .integer("vectors", shape.vectors())
      .integer("vectors_per_row", shape.inner / vector)
      .integer("first_cols", first.col_stride)
      .integer("second_cols", second.col_stride)
      .integer("output_cols", out.col_stride)
      .integer("first_vectors", first.inner_stride * vector)
      .integer("second_vectors", second.inner_stride * vector)
      .integer("output_vectors", out.inner_stride * vector);
}

std::string constants(const TypedConfig& config, const Shape& shape, const Kernels& kernels) {
  std::string text = "struct Types {\n  using Input = " + device_type(shape.input()) +
                     ";\n  using Output = " + device_type(shape.output()) + ";\n};\n\n";
  text += "static constexpr tunesmith::RowShape shape = {\n" + member("cols", shape.cols) + member("vector", 1);
  if (shape.logarithm) text += member("logarithm", true);
  if (shape.scale != 1) text += member("scaled", true);
  if (shape.safe) text += member("safe", true);
  text += "};\n\ntemplate <>\nstruct tunesmith::RowFeatures<shape> {\n  using Mask = tunesmith::NoMask;\n";
  for (const auto& [name, type] : kernels.features) text += "  using " + name + " = tunesmith::" + type + ";\n";
  text += "};\n\nstatic constexpr tunesmith::StridedConfig config = {\n" + member("threads", config.threads) +
          member("lanes", config.lanes) + member("vector", shape.vector()) + member("columns", config.columns(shape));
  if (config.blocks_per_row > 1) text += member("blocks_per_row", config.blocks_per_row);
  text += member("load", source_name(config.load));
  if (config.reads_twice()) text += member("load_again", source_name(config.load_again));
  return text + member("store", source_name(config.store)) +
         "};\n\nstatic_assert(sizeof(tunesmith::RowParams) == " + std::to_string(sizeof(RowParams)) +
         ", \"the host fills the parameters by this layout\");\n" + own_params(shape).assertions();
}

std::string kernel(const TypedConfig& config, const std::string& entry, const std::string& function) {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(config.threads) + ", " +
         std::to_string(config.min_blocks) + ")\n" + entry +
         "(const __grid_constant__ tunesmith::StridedParams params) {\n  tunesmith::" + function +
         "<Types, shape, config>(params);\n}\n";
}

}  // namespace

KeyParts StridedProblem::key() const {
  constexpr std::int64_t full = std::int64_t{1} << 20;  // positions from which every GPU is full
  KeyParts parts;
  parts.problem_class = shape_.problem_class();
  parts.n_cols = shape_.cols;
  parts.rows_bucket = half_octave(std::clamp<std::int64_t>(shape_.rows * shape_.inner, 1, full));
  return parts;
}

Config StridedProblem::default_config(const DeviceInfo& device) const {
  return strided::default_config(shape_, device).to_config();
}

Config StridedProblem::complete_config(const DeviceInfo& device, const Config& partial) const {
  return strided::complete_config(partial, shape_, device);
}

std::vector<Config> StridedProblem::search_space(const DeviceInfo& device, Effort effort) const {
  return strided::search_space(shape_, device, effort);
}

std::string StridedProblem::why_invalid(const DeviceInfo& device, const Config& config) const {
  try {
    return strided::why_invalid(TypedConfig::parse(config), shape_, device);
  } catch (const Error& error) {
    return error.what();
  }
}

SourceParts StridedProblem::source_parts(const Config& config) const {
  const TypedConfig typed = TypedConfig::parse(config);
  const Kernels named = kernels();
  const std::string reads = shape_.backward() ? "two reads" : "one read";
  const std::string vector = std::to_string(shape_.vector());
  SourceParts parts;
  parts.main_template = named.main_template;
  parts.specialized_for = {
      {"specialized for", "cols = " + std::to_string(shape_.cols) + ", reads " +
                              (shape_.backward() ? "two arrays of " : "") + std::string(tunesmith::name(shape_.input())) +
                              ", writes " + std::string(tunesmith::name(shape_.output())) +
                              (shape_.in_place ? ", in place" : "") + (shape_.scale != 1 ? ", scaled" : "") +
                              (shape_.safe ? ", fully masked rows give 0" : "")},
      {"rows", "any number, and any number of positions that is a multiple of " + vector + ", at any strides"}};
  const std::string blocks = std::to_string(typed.blocks_per_row), lanes = std::to_string(typed.lanes);
  switch (typed.variant) {
    case Variant::resident:
      parts.algorithm = reads + " and one write: columns are resident in registers while " + named.steps + " are computed";
      break;
    case Variant::cluster:
      parts.algorithm = reads + " and one write: columns are resident in the registers of a cluster of " + blocks +
                        " blocks while " + named.steps +
                        " are computed; the blocks exchange their partials once, through distributed shared memory";
      break;
    case Variant::two_pass:
      parts.algorithm = "two passes compute " + named.steps + "; the second reads the columns again and writes";
      break;
    case Variant::split:
      parts.algorithm = "two kernels compute " + named.steps + "; the first writes partials of " + blocks +
                        " slices of the columns, the second combines them, reads the columns again and writes";
      break;
  }
  parts.threads = lanes + " lanes take neighbouring vectors of " + vector + " positions; " +
                  std::to_string(typed.members()) + " threads share the columns of each, " +
                  std::to_string(typed.columns(shape_)) + " at a time";
  if (typed.variant == Variant::cluster)
    parts.least_arch = "sm_90";
  else if (is_eviction(typed.load) || is_eviction(typed.load_again) || is_eviction(typed.store))
    parts.least_arch = "sm_80";
  parts.constants = constants(typed, shape_, named);
  const std::string entry(op().name());
  if (typed.variant == Variant::split)
    parts.kernels = kernel(typed, entry + "_sums", named.function + "_split_sums") + "\n" +
                    kernel(typed, entry, named.function + "_split");
  else
    parts.kernels = kernel(typed, entry, named.function + (typed.reads_twice() ? "_two_pass" : "_resident"));
  return parts;
}

LaunchPlan StridedProblem::launch_plan(const Config& config, const DeviceInfo&) const {
  const TypedConfig typed = TypedConfig::parse(config);
  RowParams params{};
  params.rows = shape_.rows;
  params.cols = static_cast<std::int32_t>(shape_.cols);
  params.groups = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.inputs); ++i) params.input_stride[i] = shape_.in[i].row_stride;
  params.output_stride = shape_.out.row_stride;
  row::set_scale(params, shape_.scale);

  LaunchPlan plan;
  const std::span<const ArrayInfo> arrays = array_view();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::size_t offset =
        arrays[i].output ? offsetof(RowParams, output) : offsetof(RowParams, input) + i * sizeof(std::uint64_t);
    plan.pointers.push_back({arrays[i].name, static_cast<std::uint32_t>(offset),
                             static_cast<std::uint32_t>(arrays[i].alignment), arrays[i].extent_bytes(), arrays[i].output,
                             false, arrays[i].in_place_of.empty() ? -1 : 0});
  }
  plan.workspace_offset = offsetof(RowParams, workspace);
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const row::OwnParams own = own_params(shape_);
  plan.params.insert(plan.params.end(), own.bytes().begin(), own.bytes().end());
  if (shape_.rows == 0) return plan;

  const std::int64_t blocks = typed.tiles(shape_) * typed.blocks_per_row;
  KernelLaunch launch;
  launch.entry = std::string(op().name());
  launch.grid = folded_grid(blocks, typed.variant == Variant::cluster ? typed.blocks_per_row : 1);
  if (typed.variant == Variant::cluster) launch.cluster = {static_cast<std::uint32_t>(typed.blocks_per_row), 1, 1};
  launch.block = {static_cast<std::uint32_t>(typed.threads), 1, 1};
  if (typed.variant == Variant::split) {
    constexpr std::int64_t part_bytes = 16;
    plan.workspace_bytes = blocks * typed.lanes * shape_.vector() * part_bytes;
    plan.workspace_use = WorkspaceUse::scratch;
    KernelLaunch sums = launch;
    sums.entry += "_sums";
    plan.kernels.push_back(sums);
    plan.main_kernel = 1;
  }
  plan.kernels.push_back(launch);
  return plan;
}

Problem StridedProblem::verification_problem() const {
  // About a million elements, with enough positions for all edge cases, and a number that no block size divides. `inner` is
  // not compiled in, except for the vectors that it allows.
  Problem small = problem();
  const std::int64_t positions = std::clamp<std::int64_t>((std::int64_t{1} << 20) / shape_.cols, 16, 512);
  const std::int64_t odd = positions / shape_.vector() / 2 * 2 + 1;
  const std::int64_t inner = std::min(shape_.inner, shape_.vector() * odd);
  small.fields.set("inner", inner);
  // Rows that follow each other may be more than in this problem; others could overlap then.
  const Array& out = shape_.out;
  const bool follow = out.row_stride > (shape_.cols - 1) * out.col_stride + (shape_.inner - 1) * out.inner_stride;
  const std::int64_t rows = positions / inner + 1;
  small.fields.set("rows", follow ? rows : std::min(rows, shape_.rows));
  return small;
}

}  // namespace tunesmith::strided
