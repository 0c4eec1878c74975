#include "templates/row/launch.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>

#include "templates/folded_grid.h"
#include "templates/row/params.cuh"
#include "templates/row/schedules/persistent.h"
#include "templates/row/schedules/pipeline.h"
#include "tunesmith/error.h"

namespace tunesmith::row {

void set_scale(RowParams& params, double scale, bool wide) {
  const double log2e = 1.44269504088896340736 * scale;
  params.scale = static_cast<float>(scale);
  params.log2e_high = static_cast<float>(log2e);
  params.log2e_low = static_cast<float>(log2e - static_cast<double>(params.log2e_high));
  params.far_below = static_cast<float>(120 / scale);
  params.large_maximum = static_cast<float>(std::min(1048576 / scale, 3e38));
  if (!wide) return;
  const auto bits = std::bit_cast<std::uint64_t>(scale);
  params.log2e_low = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  params.log2e_high = std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32U));
}

std::uint32_t offset_of_rows(const ArrayInfo& array, std::size_t position) {
  if (array.output) return offsetof(RowParams, output);
  if (position < std::size(RowParams{}.input))
    return static_cast<std::uint32_t>(offsetof(RowParams, input) + position * sizeof(void*));
  throw Error(ErrorCode::unsupported, "the kernel's parameters have no address for the array '", array.name, "'");
}

namespace {

constexpr std::int64_t max_grid_x = std::numeric_limits<std::int32_t>::max();

RowParams parameters(const Shape& shape) {
  RowParams params{};
  params.rows = shape.rows;
  for (int i = 0; i < std::min(shape.inputs, 2); ++i) params.input_stride[i] = shape.in[static_cast<std::size_t>(i)].stride;
  params.output_stride = shape.out.stride;
  params.cols = static_cast<std::int32_t>(shape.actual_cols == 0 ? shape.cols : shape.actual_cols);
  const Options& options = shape.options;
  params.mask_inner = options.mask_inner == 0 ? std::max<std::int64_t>(shape.rows, 1) : options.mask_inner;
  params.mask_middle = options.mask_middle;
  params.mask_inner_stride = options.mask_row_stride;
  params.mask_middle_stride = options.mask_middle_stride;
  params.mask_outer_stride = options.mask_outer_stride;
  params.valid_cols_group = options.valid_cols_group;
  params.groups = 1;
  set_scale(params, options.scale, shape.wide());
  return params;
}

std::uint32_t pointer_offset(const ArrayInfo& array, std::size_t position, const OwnParams& own) {
  if (const auto offset = own.offset_of(array.name)) return *offset;
  if (array.name == "mask") return offsetof(RowParams, mask);
  if (array.name == "valid_cols") return offsetof(RowParams, valid_cols);
  return offset_of_rows(array, position);
}

int position_of(std::span<const ArrayInfo> arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &ArrayInfo::name);
  return found == arrays.end() ? -1 : static_cast<int>(found - arrays.begin());
}

}  // namespace

LaunchPlan launch_plan(const TypedConfig& config, const Shape& problem_shape, const DeviceInfo& device,
                       const std::string& entry, std::span<const ArrayInfo> arrays, const OwnParams& own,
                       std::int64_t part_bytes) {
  const Shape shape = config.view(problem_shape);
  RowParams params = parameters(shape);
  LaunchPlan plan;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    plan.pointers.push_back({arrays[i].name, pointer_offset(arrays[i], i, own),
                             static_cast<std::uint32_t>(arrays[i].alignment), arrays[i].extent_bytes(), arrays[i].output,
                             false, position_of(arrays, arrays[i].in_place_of)});
  plan.workspace_offset = offsetof(RowParams, workspace);

  KernelLaunch launch;
  launch.entry = entry;
  launch.block = {static_cast<std::uint32_t>(config.threads), 1, 1};
  launch.dynamic_smem_bytes = config.launch_smem_bytes(shape);
  std::int64_t blocks = shape.rows;
  switch (config.variant) {
    case Variant::warp: blocks = (shape.rows + config.rows_of_block() - 1) / config.rows_of_block(); break;
    case Variant::cluster:
      blocks = shape.rows * config.blocks_per_row;
      launch.cluster = {static_cast<std::uint32_t>(config.blocks_per_row), 1, 1};
      break;
    case Variant::grid: {
      const std::int64_t resident = std::int64_t{config.min_blocks} * device.sm_count / config.blocks_per_row;
      params.groups = std::clamp<std::int64_t>(resident, 1, std::max<std::int64_t>(shape.rows, 1));
      blocks = params.groups * config.blocks_per_row;
      launch.cooperative = true;
      constexpr std::int64_t words = 16;  // two sets of eight
      plan.workspace_bytes = blocks * words * static_cast<std::int64_t>(sizeof(std::uint64_t));
      break;
    }
    case Variant::two_pass: {
      const std::int64_t most =
          config.blocks_per_sm == 0 ? max_grid_x : std::int64_t{config.blocks_per_sm} * device.sm_count;
      blocks = params.groups = std::min(shape.rows, most);
      break;
    }
    case Variant::split:
      blocks = shape.rows * config.blocks_per_row;
      plan.workspace_bytes = blocks * part_bytes;
      plan.workspace_use = WorkspaceUse::scratch;
      break;
    case Variant::pipeline: {
      // Not limited to resident clusters: rows come from a counter, and clusters that start late find none left.
      const std::int64_t clusters = std::int64_t{config.min_blocks} * device.sm_count / config.blocks_per_row;
      params.groups = std::max<std::int64_t>(clusters, 1);
      blocks = params.groups * config.blocks_per_row;
      launch.block = {static_cast<std::uint32_t>(config.threads + pipeline_extra_threads), 1, 1};
      if (config.blocks_per_row > 1) launch.cluster = {static_cast<std::uint32_t>(config.blocks_per_row), 1, 1};
      plan.workspace_bytes = 16;  // the counter, and the number of finished clusters
      plan.workspace_use = WorkspaceUse::zeros;
      break;
    }
    case Variant::persistent:
      params.groups = persistent_groups(config, shape.rows, device);
      blocks = params.groups * config.blocks_per_row;
      if (config.blocks_per_row > 1) launch.cluster = {static_cast<std::uint32_t>(config.blocks_per_row), 1, 1};
      break;
    case Variant::block:
    case Variant::hybrid: break;
  }
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.params.insert(plan.params.end(), own.bytes().begin(), own.bytes().end());
  if (shape.rows == 0) {
    plan.workspace_bytes = 0;
    return plan;
  }
  launch.grid = folded_grid(blocks, launch.cluster.x);
  if (config.variant == Variant::split) {
    KernelLaunch sums = launch;
    sums.entry += "_sums";
    plan.kernels.push_back(sums);
  }
  plan.kernels.push_back(launch);
  return plan;
}

}  // namespace tunesmith::row
