#pragma once
// A small performance model of blocks and warps that keep rows in registers: resident bytes per multiprocessor, lane
// utilization, and the last wave. Internal to templates/row.

#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

struct Expectation {
  double bytes = 0;       ///< resident row bytes per multiprocessor; blocks of masked rows: as loaded, with the mask
  double resident = 0;    ///< these relative to what saturates its memory bandwidth; at most 1
  double lane_use = 0;    ///< vectors of a row relative to the vectors its threads can hold
  double tail = 0;        ///< idle part of the last wave relative to the full waves; 0 for warps, which finish one by one
  double row_values = 0;  ///< registers per thread that hold the row

  /// Idle lanes cost registers, which `resident` counts, and issue slots, which cost half as much when memory is the
  /// bottleneck.
  double value() const noexcept { return resident * (1 + lane_use) / 2; }
};

/// Returns the registers per lane that should hold the row of a warp.
double wanted_values_of_warps(const Shape& shape);

/// Evaluates a warp or block configuration.
Expectation expectation(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Returns blocks of every multiple of 32 threads and every register format that can hold this row, best first; may be
/// empty.
std::vector<TypedConfig> ranked_blocks(const Shape& shape, const DeviceInfo& device);

/// Ranks the warp variant in the same way: blocks of `threads` threads, at most `max_vectors` vectors per lane.
std::vector<TypedConfig> ranked_warps(int threads, int max_vectors, const Shape& shape, const DeviceInfo& device);

}  // namespace tunesmith::row
