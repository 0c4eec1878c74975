#pragma once
// The persistent variant (row/schedules/persistent.cuh): groups of blocks, validity, and configurations to try. Internal to
// templates/.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

/// Returns the blocks or clusters of the grid: as many as are resident at once, because a later one would begin its rows
/// when the others end.
std::int64_t persistent_groups(const TypedConfig& config, std::int64_t rows, const DeviceInfo& device) noexcept;

/// Returns the static shared memory in which the warps of a row program's block or cluster exchange partial results
/// (row/schedules/persistent_group.cuh).
std::int64_t message_bytes(const TypedConfig& config, const Shape& shape) noexcept;

/// Returns why a persistent kernel cannot run rows of this shape; empty if it can.
std::string why_not_persistent(const TypedConfig& config, const Shape& shape);

/// Returns valid configurations to try, the most promising ones first.
std::vector<TypedConfig> persistents_to_try(const Shape& shape, const DeviceInfo& device, bool full);

}  // namespace tunesmith::row
