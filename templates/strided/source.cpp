#include "templates/strided/source.h"

#include <algorithm>
#include <cstring>

#include "templates/folded_grid.h"
#include "templates/row/launch.h"
#include "templates/row/params.cuh"
#include "templates/source_text.h"

namespace tunesmith::strided {

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

std::vector<std::byte> params_of(const Shape& shape) {
  RowParams params{};
  params.rows = shape.rows;
  params.cols = static_cast<std::int32_t>(shape.cols);
  params.groups = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.inputs); ++i) params.input_stride[i] = shape.in[i].row_stride;
  params.output_stride = shape.out.row_stride;
  row::set_scale(params, shape.scale, shape.wide());
  std::vector<std::byte> bytes(sizeof params);
  std::memcpy(bytes.data(), &params, sizeof params);
  const row::OwnParams own = own_params(shape);
  bytes.insert(bytes.end(), own.bytes().begin(), own.bytes().end());
  return bytes;
}

std::string constants(const TypedConfig& config, const Shape& shape,
                      const std::vector<std::pair<std::string, std::string>>& features) {
  std::string text = "struct Types {\n  using Input = " + device_type(shape.input()) +
                     ";\n  using Output = " + device_type(shape.output()) + ";\n};\n\n";
  text += "static constexpr tunesmith::RowShape shape = {\n" + member("cols", shape.cols) + member("vector", 1);
  if (shape.logarithm) text += member("logarithm", true);
  if (shape.scale != 1) text += member("scaled", true);
  if (shape.safe) text += member("safe", true);
  if (shape.wide()) text += member("wide", true);
  text += "};\n\ntemplate <>\nstruct tunesmith::RowFeatures<shape> {\n  using Mask = tunesmith::NoMask;\n";
  for (const auto& [name, type] : features) text += "  using " + name + " = tunesmith::" + type + ";\n";
  text += "};\n\nstatic constexpr tunesmith::StridedConfig config = {\n" + member("threads", config.threads) +
          member("lanes", config.lanes) + member("vector", shape.vector()) + member("columns", config.columns(shape));
  // Never omitted: nvcc 13.0 sets an omitted member between designated ones to 0 instead of to its default.
  text += member("blocks_per_row", config.blocks_per_row) + member("load", source_name(config.load));
  if (config.reads_twice()) text += member("load_again", source_name(config.load_again));
  return text + member("store", source_name(config.store)) +
         "};\n\nstatic_assert(sizeof(tunesmith::RowParams) == " + std::to_string(sizeof(RowParams)) +
         ", \"the host fills the parameters by this layout\");\n";
}

std::string kernel(std::int64_t threads, std::int64_t min_blocks, const std::string& entry, const std::string& params,
                   const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", " + std::to_string(min_blocks) +
         ")\n" + entry + "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + call +
         "(params);\n}\n";
}

std::string min_arch(const TypedConfig& config) {
  if (config.variant == Variant::cluster) return "sm_90";
  const bool evicts = is_eviction(config.load) || is_eviction(config.load_again) || is_eviction(config.store);
  return evicts ? "sm_80" : SourceParts().min_arch;
}

std::vector<std::pair<std::string, std::string>> specialized_for(const Shape& shape) {
  return {{"specialized for", "cols = " + std::to_string(shape.cols) + ", reads " +
                                  (shape.backward() ? "two arrays of " : "") + std::string(name(shape.input())) +
                                  (shape.writes ? ", writes " + std::string(name(shape.output())) : "") +
                                  (shape.in_place ? ", in place" : "") + (shape.scale != 1 ? ", scaled" : "") +
                                  (shape.safe ? ", fully masked rows give 0" : "")},
          {"rows", "any number, and any number of positions that is a multiple of " + std::to_string(shape.vector()) +
                       ", at any strides"}};
}

void describe(const TypedConfig& config, const Shape& shape, const std::string& steps, SourceParts& parts) {
  const std::string accesses =
      std::string(shape.backward() ? "two reads" : "one read") + (shape.writes ? " and one write" : "");
  const std::string last = shape.writes ? "reads the columns again and writes" : "";
  const std::string vector = std::to_string(shape.vector()), lanes = std::to_string(config.lanes),
                    blocks = std::to_string(config.blocks_per_row);
  switch (config.variant) {
    case Variant::resident:
      parts.algorithm = accesses + ": columns are resident in registers while " + steps + " are computed";
      break;
    case Variant::cluster:
      parts.algorithm = accesses + ": columns are resident in the registers of a cluster of " + blocks + " blocks while " +
                        steps + " are computed; the blocks exchange their partials once, through distributed shared memory";
      break;
    case Variant::two_pass:
      parts.algorithm = shape.writes ? "two passes compute " + steps + "; the second " + last
                                     : "one read: running sums over the columns compute " + steps;
      break;
    case Variant::split:
      parts.algorithm = "two kernels compute " + steps + "; the first writes partials of " + blocks +
                        " slices of the columns, the second combines them" + (shape.writes ? ", " + last : "");
      break;
  }
  parts.threads = lanes + " lanes take neighbouring vectors of " + vector + " positions; " +
                  std::to_string(config.members()) + " threads share the columns of each, " +
                  std::to_string(config.columns(shape)) + " at a time";
}

void add_kernels(const TypedConfig& config, const Shape& shape, const std::string& entry, LaunchPlan& plan) {
  if (shape.rows == 0) return;
  const std::int64_t blocks = config.tiles(shape) * config.blocks_per_row;
  KernelLaunch launch;
  launch.entry = entry;
  launch.grid = folded_grid(blocks, config.variant == Variant::cluster ? config.blocks_per_row : 1);
  if (config.variant == Variant::cluster) launch.cluster = {static_cast<std::uint32_t>(config.blocks_per_row), 1, 1};
  launch.block = {static_cast<std::uint32_t>(config.threads), 1, 1};
  if (config.variant == Variant::split) {
    plan.workspace_bytes = blocks * config.lanes * shape.vector() * shape.part_bytes;
    plan.workspace_use = WorkspaceUse::scratch;
    for (const std::string& sums_entry : sums_entries(shape, entry)) {
      KernelLaunch sums = launch;
      sums.entry = sums_entry;
      plan.kernels.push_back(sums);
    }
    plan.main_kernel = plan.kernels.size();
  }
  plan.kernels.push_back(launch);
}

std::vector<std::string> sums_entries(const Shape& shape, const std::string& entry) {
  std::vector<std::string> entries;
  for (int stage = 1; stage <= shape.stages; ++stage)
    entries.push_back(entry + "_sums" + (shape.stages > 1 ? std::to_string(stage) : ""));
  return entries;
}

void set_few_positions(Problem& problem, const Shape& shape, std::int64_t least) {
  // `inner` is not compiled in, except for the vectors that it allows.
  const std::int64_t positions = std::clamp<std::int64_t>((std::int64_t{1} << 20) / shape.cols, least, 512);
  const std::int64_t odd = positions / shape.vector() / 2 * 2 + 1;
  const std::int64_t inner = std::min(shape.inner, shape.vector() * odd);
  problem.fields.set("inner", inner);
  // Rows that follow each other may be more than in this problem; others could overlap then. Without rows, strides were not
  // checked. More sums of very many columns may exceed the workspace.
  const auto rows_follow = [&](const Array& out) {
    return out.row_stride > (shape.cols - 1) * out.col_stride + (shape.inner - 1) * out.inner_stride;
  };
  constexpr std::int64_t very_many_cols = std::int64_t{1} << 20;
  const bool follow = shape.rows > 0 && shape.cols <= very_many_cols && rows_follow(shape.out) &&
                      std::all_of(shape.more_out.begin(), shape.more_out.begin() + shape.more_outputs, rows_follow);
  const std::int64_t rows = positions / inner + 1;
  problem.fields.set("rows", follow ? rows : std::min(rows, shape.rows));
}

}  // namespace tunesmith::strided
