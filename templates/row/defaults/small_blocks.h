#pragma once
// Clusters of small blocks for long resident rows. Internal to templates/row.

#include <cstdint>
#include <optional>
#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

inline constexpr std::int64_t max_bytes_of_small_block = 42 << 10;  ///< of a row

/// Returns a valid cluster of blocks with 128 threads. Each block holds up to 42 KiB of a row; a multiprocessor has five to
/// eight. Returns nullopt if rows are shorter, exceed a cluster, or give fewer than four blocks on each multiprocessor.
/// Where some blocks wait for an exchange, others load and store. On an H100 and an H200, 0.7 to 1.01 of the time of blocks
/// with 256 threads and more (NOTES.md, "Clusters of small blocks, 32 KiB to a MiB"). With cache hints.
std::optional<TypedConfig> small_blocks(const Shape& shape, const DeviceInfo& device);

/// Returns whether programs whose rows have `of_row` blocks each take little more than one wave where memory needs
/// more loads in flight. Fewer resident blocks, and none that wait before their first load, are faster then: later ones load
/// while the first ones compute. On an H200, 0.82 to 1.01 of the time (row_program/NOTES.md, "Clusters exchange messages").
bool overlaps_waves(const Shape& shape, int of_row, const DeviceInfo& device);

/// Returns the clusters to try: more or fewer blocks for each row and multiprocessor, and other representations in
/// registers.
std::vector<TypedConfig> small_blocks_to_try(const Shape& shape, const DeviceInfo& device, bool full);

}  // namespace tunesmith::row
