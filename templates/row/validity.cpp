// Checks whether a device can run a configuration for a shape, and reports why not.

#include <algorithm>

#include "templates/folded_grid.h"
#include "templates/row/config.h"
#include "templates/row/schedules/persistent.h"
#include "templates/row/schedules/pipeline.h"

namespace tunesmith::row {
namespace {

std::string why_not_on_device(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  const bool has_sm80 = device.arch.number() >= 80;
  if ((is_eviction(config.load) || is_eviction(config.load_again) || is_eviction(config.store)) && !has_sm80)
    return "eviction policies need sm_80 or later; the device is " + name(device.arch);
  if (shape.in_place && (config.load == LoadHint::no_allocate || config.load_again == LoadHint::no_allocate))
    return "load no_allocate reads through the read-only path, which in_place=1 rules out";
  if (config.variant == Variant::cluster || (config.variant == Variant::persistent && config.blocks_per_row > 1)) {
    if (device.arch.number() < 90)
      return std::string(name(config.variant)) + " needs sm_90 or later for clusters; the device is " + name(device.arch);
    const int most = max_cluster_blocks(device);
    if (config.blocks_per_row > most)
      return "blocks_per_row is " + std::to_string(config.blocks_per_row) + "; the device's clusters have at most " +
             std::to_string(most) + " blocks";
  }
  if (config.prefetch_blocks > 0 && device.arch.number() < 90)
    return "prefetch_blocks needs sm_90 or later; the device is " + name(device.arch);
  if (config.prefetch_blocks > 0 && shape.cost.sums_rows())
    return "prefetch_blocks is for grids with a group for each row; programs that sum over the rows have fewer";
  const bool copies = config.smem_bytes(shape) > 0;
  if (copies && !has_sm80)
    return std::string(name(config.variant)) +
           " copies to shared memory asynchronously, which needs sm_80 or later; the device is " + name(device.arch);
  return {};
}

std::string why_row_does_not_fit(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const std::int64_t smem_bytes = config.smem_bytes(shape);
  if (config.variant == Variant::hybrid && smem_bytes == 0)
    return "register_vectors is " + std::to_string(config.register_vectors) + "; a thread has only " +
           std::to_string(config.vectors_per_thread(shape)) + " vectors of this row";
  if (smem_bytes > 0) {
    if (shape.staged_rows == 0 && shape.vector() * shape.min_resident_bytes() < 4)
      return std::string(name(config.variant)) + " copies to shared memory, which needs rows that are aligned to 4 bytes";
    // The system reserves 1 KB of shared memory per block; partials of the reductions take up to 1 KB, and so does
    // alignment.
    const std::int64_t exchange_bytes =
        config.variant == Variant::persistent ? message_bytes(config, shape) : 2048 + shape.cost.more_smem_bytes;
    const auto why_too_large = [&](std::int64_t cols, int blocks) -> std::string {
      const std::int64_t needed = cols == shape.cols ? smem_bytes : config.smem_bytes(shape, cols);
      const std::int64_t available =
          std::min(device.smem_bytes_per_block, device.smem_bytes_per_sm / blocks - 1024) - exchange_bytes;
      if (needed <= available) return {};
      return std::string(name(config.variant)) + " with these settings needs " + std::to_string(needed) +
             " bytes of shared memory for " + std::to_string(cols) + " columns; there are " + std::to_string(available) +
             " for each of " + std::to_string(blocks) + " blocks";
    };
    // All blocks of a grid run at the same time.
    const bool fewer_of_wide_rows = config.sized_by_row == 1 && shape.min_cols > 0 && config.variant != Variant::grid;
    const std::int64_t fitting = fewer_of_wide_rows ? shape.min_cols : shape.cols;
    if (std::string why = why_too_large(fitting, config.min_blocks); !why.empty()) return why;
    if (std::string why = why_too_large(shape.cols, 1); fitting != shape.cols && !why.empty()) return why;
  }
  if (config.variant == Variant::grid && shape.cost.exchanged_floats > max_floats_of_grid)
    return "grid exchanges at most " + std::to_string(max_floats_of_grid) +
           " floats between the blocks of a row; this problem exchanges " + std::to_string(shape.cost.exchanged_floats);
  if (config.variant == Variant::grid && config.blocks_per_row > config.min_blocks * device.sm_count)
    return "blocks_per_row is " + std::to_string(config.blocks_per_row) + "; the device holds " +
           std::to_string(std::int64_t{config.min_blocks} * device.sm_count) + " such blocks at once";
  return {};
}

/// Static shared memory for the partial results of a program with large ones. Zero for others, which always have room.
std::int64_t static_exchange_bytes(const TypedConfig& config, const Shape& shape) {
  constexpr int large = 32, float_bytes = 4, warp = 32, buffers = 2;
  if (!shape.cost.composed || shape.cost.exchanged_floats <= large || config.variant == Variant::warp) return 0;
  if (config.variant == Variant::persistent) return message_bytes(config, shape);
  const std::int64_t value = std::int64_t{float_bytes} * shape.cost.exchanged_floats, warps = config.threads / warp;
  const std::int64_t within = warps * value * shape.cost.stages;
  return config.variant == Variant::cluster ? buffers * within + buffers * config.blocks_per_row * value * shape.cost.stages
                                            : within;
}

std::string why_not_resident(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const int blocks = config.min_blocks;
  const int threads = config.threads + (config.variant == Variant::pipeline ? pipeline_extra_threads : 0);
  if (blocks * threads > device.max_threads_per_sm)
    return "min_blocks is " + std::to_string(blocks) + " of " + std::to_string(threads) +
           " threads; a multiprocessor holds " + std::to_string(device.max_threads_per_sm) + " threads";
  // Without a register bound, kernels without resident rows take the registers they need.
  if (config.reads_twice() && blocks == 1) return {};
  const int available = std::min(255, device.registers_per_sm / (threads * blocks));
  if (config.registers_needed(shape) > available)
    return std::string(name(config.variant)) + " with these settings needs about " +
           std::to_string(config.registers_needed(shape)) + " registers a thread for " + std::to_string(shape.cols) +
           " columns; there are " + std::to_string(available);
  return {};
}

}  // namespace

std::string why_invalid(const TypedConfig& config, const Shape& problem_shape, const DeviceInfo& device) {
  if (config.access == Access::staged)
    if (std::string reason = why_not_staged(config, problem_shape); !reason.empty()) return reason;
  if (config.access != Access::vectors && !problem_shape.shifted())
    return "access " + std::string(enum_name(config.access)) +
           " is for rows that start between two vectors; these start at multiples of " +
           std::to_string(problem_shape.vector()) + " elements";
  if (config.members() % problem_shape.cost.lanes_of_group != 0)
    return std::to_string(config.members()) + " threads share a row; groups of columns need a multiple of " +
           std::to_string(problem_shape.cost.lanes_of_group);
  if (config.capacity != 0 && config.capacity != problem_shape.capacity())
    return "capacity is " + std::to_string(config.capacity) + "; rows of " + std::to_string(problem_shape.cols) +
           " columns have " + std::to_string(problem_shape.capacity());
  const Shape shape = config.view(problem_shape);
  std::string reason = why_not_on_device(config, shape, device);
  if (reason.empty() && config.variant == Variant::persistent) reason = why_not_persistent(config, shape);
  if (reason.empty() && config.variant == Variant::pipeline) reason = why_not_streamed(config, shape, device);
  if (const std::int64_t bytes = static_exchange_bytes(config, shape); reason.empty() && bytes > max_exchanged_bytes)
    reason = "the warps of a row exchange " + std::to_string(bytes) + " bytes through shared memory; there are " +
             std::to_string(max_exchanged_bytes) + "; use fewer threads, or fewer rows of a batch";
  if (reason.empty() && config.holds_row()) reason = why_row_does_not_fit(config, shape, device);
  if (reason.empty()) reason = why_not_resident(config, shape, device);
  if (reason.empty() && config.variant == Variant::split && config.blocks_per_row > shape.vectors_per_row())
    reason = "blocks_per_row is " + std::to_string(config.blocks_per_row) + "; a row has only " +
             std::to_string(shape.vectors_per_row()) + " vectors";
  if (reason.empty() && config.variant == Variant::split && shape.cost.composed)
    reason = "row programs have no split kernels; two_pass also runs rows of any length";
  constexpr std::int64_t max_workspace_bytes = std::int64_t{1} << 30;
  if (reason.empty() && config.variant == Variant::split && shape.rows > max_workspace_bytes / 16 / config.blocks_per_row)
    reason = "split would need more than a gigabyte of workspace for " + std::to_string(shape.rows) + " rows";
  return reason;
}

}  // namespace tunesmith::row
