#pragma once
// What a small model expects of blocks and warps that hold rows in registers: how much of the rows waits on a
// multiprocessor, how many lanes have work, how full the last wave is. Internal to templates/row.

#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

struct Expectation {
  double bytes = 0;       ///< of rows that wait on a multiprocessor
  double resident = 0;    ///< these as a share of what keeps its memory busy; at most 1
  double lane_use = 0;    ///< vectors of a row over those that its threads have room for
  double tail = 0;        ///< the last wave's idle part over the time of full waves; warps finish one by one: 0
  double row_values = 0;  ///< registers of a thread that hold the row

  /// Idle lanes take registers, which `resident` has counted, and turns, which cost half as much where memory is slow.
  double value() const noexcept { return resident * (1 + lane_use) / 2; }
};

/// Of a warp or block configuration.
Expectation expectation(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Blocks of every multiple of 32 threads in every form of registers that can hold this row, best first; empty when none
/// can.
std::vector<TypedConfig> ranked_blocks(const Shape& shape, const DeviceInfo& device);

/// Ranks the warp variant likewise: blocks of `threads` threads, at most `most_vectors` vectors per lane.
std::vector<TypedConfig> ranked_warps(int threads, int most_vectors, const Shape& shape, const DeviceInfo& device);

}  // namespace tunesmith::row
