#include "templates/row_program/column_sums.h"

#include <algorithm>
#include <cstring>

#include "templates/folded_grid.h"
#include "templates/row/geometry.h"
#include "templates/row/params.cuh"
#include "templates/row/persistent.h"

namespace tunesmith::row_program {
namespace {

constexpr const char* entry = "row_program_column_sums";
// Of the second kernel: 8 floats are a sector of L2.
constexpr int threads = 512, columns = 8;

/// Returns the groups of threads, each with partial sums of its own, that a device holds at once.
std::int64_t resident_groups(const row::TypedConfig& config, const row::Shape& shape, const DeviceInfo& device) {
  if (config.variant == row::Variant::persistent) return row::persistent_groups(config, shape.rows, device);
  int blocks_per_sm = config.min_blocks;
  if (config.variant == row::Variant::warp)
    blocks_per_sm = std::min(row::resident_warps(config, shape, device) * 32, device.max_threads_per_sm) / config.threads;
  if (config.variant == row::Variant::two_pass && config.blocks_per_sm > 0) blocks_per_sm = config.blocks_per_sm;
  const bool shares_row = config.variant == row::Variant::cluster || config.variant == row::Variant::grid;
  return std::max<std::int64_t>(1, blocks_per_sm * device.sm_count / (shares_row ? config.blocks_per_row : 1));
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Adds the source of the second kernel; `rows`: of a partial sum.
void add_rows_kernel(SourceParts& parts, const std::string& params, const std::string& rows) {
  const std::string count = std::to_string(threads);
  parts.kernels += "\nextern \"C\" __global__ void __launch_bounds__(" + count + ")\n" + entry +
                   "(const __grid_constant__ tunesmith::" + params + " params) {\n  tunesmith::" + entry +
                   "<tunesmith::Program, shape, " + count + ", " + std::to_string(columns) + ", " + rows + ">(params);\n}\n";
}

}  // namespace

void add_column_sums(LaunchPlan& plan, const row::TypedConfig& config, const row::Shape& shape, const DeviceInfo& device) {
  RowParams params{};
  std::memcpy(&params, plan.params.data(), sizeof params);
  const std::int64_t rows_at_once = config.variant == row::Variant::warp ? config.threads / config.lanes : 1;
  params.groups = std::min(resident_groups(config, shape, device), (shape.rows + rows_at_once - 1) / rows_at_once);
  std::memcpy(plan.params.data(), &params, sizeof params);

  if (!plan.kernels.empty()) {
    const bool shares_row = config.variant == row::Variant::cluster || config.variant == row::Variant::grid ||
                            config.variant == row::Variant::persistent;
    const std::int64_t blocks_of_group = shares_row ? config.blocks_per_row : 1;
    plan.kernels.front().grid = folded_grid(params.groups * blocks_of_group, blocks_of_group);
    // The words that blocks of a grid exchange follow the partial sums.
    const std::int64_t cols = round_up(shape.cols, 32);
    plan.workspace_bytes +=
        2 * static_cast<std::int64_t>(sizeof(float)) * shape.words_of_value() * shape.column_sums * params.groups * cols;
    if (config.variant != row::Variant::grid) plan.workspace_use = WorkspaceUse::scratch;
  }
  add_column_sums_kernel(plan, shape.cols, device);
}

void add_column_sums_kernel(LaunchPlan& plan, std::int64_t cols, const DeviceInfo& device) {
  KernelLaunch finish;
  finish.entry = entry;
  finish.grid = folded_grid((cols + columns - 1) / columns);
  finish.block = {threads, 1, 1};
  finish.overlaps = !plan.kernels.empty() && device.kind == DeviceInfo::Kind::cuda && device.arch.number() >= 90;
  plan.kernels.push_back(finish);
}

void add_column_sums(SourceParts& parts, const row::TypedConfig& config, const std::string& params) {
  add_rows_kernel(parts, params, config.holds_row() ? "tunesmith::rows_of_partial" : "1");
  parts.algorithm += "; sums over rows are partial sums of each group of threads, which a second kernel adds up";
}

void add_column_sums(SourceParts& parts, const std::string& params, std::int64_t rows) {
  add_rows_kernel(parts, params, std::to_string(rows));
  parts.algorithm += "; sums over rows are partial sums of each tile of positions, which a last kernel adds up";
}

}  // namespace tunesmith::row_program
