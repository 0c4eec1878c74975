#include "templates/row_program/column_sums.h"

#include <algorithm>
#include <cstring>

#include "templates/folded_grid.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/params.cuh"
#include "templates/row/schedules/persistent.h"

namespace tunesmith::row_program {
namespace {

constexpr const char* entry = "row_program_column_sums";
// Of the second kernel: 8 floats are a sector of L2.
constexpr int block_threads = 512, block_columns = 8;

/// Returns the groups of threads, each with partial sums of its own, that a device holds at once.
std::int64_t resident_groups(const row::TypedConfig& config, const row::Shape& shape, const DeviceInfo& device) {
  if (config.variant == row::Variant::persistent) return row::persistent_groups(config, shape.rows, device);
  int blocks_per_sm = config.min_blocks;
  if (config.variant == row::Variant::two_pass && config.blocks_per_sm > 0) blocks_per_sm = config.blocks_per_sm;
  const bool shares_row = config.variant == row::Variant::cluster || config.variant == row::Variant::grid;
  return std::max<std::int64_t>(1, blocks_per_sm * device.sm_count / (shares_row ? config.blocks_per_row : 1));
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Returns the number of blocks that share rows.
std::int64_t blocks_of_group(const row::TypedConfig& config) {
  const bool shares_row = config.variant == row::Variant::cluster || config.variant == row::Variant::grid ||
                          config.variant == row::Variant::persistent;
  return shares_row ? config.blocks_per_row : 1;
}

}  // namespace

void add_column_sums(LaunchPlan& plan, const row::TypedConfig& config, const row::Shape& shape, const DeviceInfo& device) {
  RowParams params{};
  std::memcpy(&params, plan.params.data(), sizeof params);
  const std::int64_t rows_at_once = config.variant == row::Variant::warp ? config.threads / config.lanes : 1;
  params.groups = std::min(resident_groups(config, shape, device), (shape.rows + rows_at_once - 1) / rows_at_once);
  std::memcpy(plan.params.data(), &params, sizeof params);

  if (!plan.kernels.empty()) {
    const std::int64_t blocks = blocks_of_group(config);
    plan.kernels.front().grid = folded_grid(params.groups * blocks, blocks);
    // Each block has one of each sum over rows and columns (row/schedules/totals.cuh). The words that blocks of a grid
    // exchange follow the partial sums, as far away as if all were sums of columns.
    const bool is_grid = config.variant == row::Variant::grid;
    const std::int64_t of_columns = params.groups * round_up(shape.cols, 32);
    const std::int64_t of_total = is_grid ? of_columns : params.groups * blocks;
    plan.workspace_bytes += 2 * static_cast<std::int64_t>(sizeof(float)) * shape.words_of_value() *
                            (shape.cost.column_sums * of_columns + shape.cost.totals * of_total);
    if (!is_grid) plan.workspace_use = WorkspaceUse::scratch;
  }
  add_column_sums_kernel(plan, shape.cost.column_sums > 0 ? shape.cols : 0, device);
}

void add_column_sums_kernel(LaunchPlan& plan, std::int64_t cols, const DeviceInfo& device) {
  KernelLaunch finish;
  finish.entry = entry;
  finish.grid = folded_grid(std::max<std::int64_t>(1, (cols + block_columns - 1) / block_columns));
  finish.block = {block_threads, 1, 1};
  finish.overlaps = !plan.kernels.empty() && device.overlaps_launches();
  plan.kernels.push_back(finish);
}

void add_column_sums(SourceParts& parts, const row::TypedConfig& config, const row::Shape& shape) {
  add_column_sums(parts, "RowProgramParams",
                  {.rows = config.holds_row() ? "tunesmith::rows_of_partial" : "1",
                   .blocks = blocks_of_group(config),
                   .totals = shape.cost.totals > 0,
                   .of = "group of threads, which a second kernel adds up"});
}

void add_column_sums(SourceParts& parts, const std::string& params, const PartialSumsText& sums) {
  const std::string count = std::to_string(block_threads);
  const std::string function = sums.totals ? "program_sums_and_totals" : "program_column_sums";
  parts.kernels += "\nextern \"C\" __global__ void __launch_bounds__(" + count + ")\n" + entry +
                   "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + function +
                   "<tunesmith::Program, shape, " + count + ", " + std::to_string(block_columns) + ", " + sums.rows +
                   (sums.totals ? ", " + std::to_string(sums.blocks) : "") + ">(params);\n}\n";
  parts.algorithm += "; sums over rows are partial sums of each " + sums.of;
}

}  // namespace tunesmith::row_program
