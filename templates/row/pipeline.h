#pragma once
// Rows that stream through the shared memory of clusters that stay (row/pipeline.cuh): how a row lies there, where that can
// run, and which of it is worth trying. Internal to templates/row.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

/// Of the producer's and the finisher's warp.
inline constexpr int pipeline_extra_threads = 64;

/// As row/pipeline.cuh computes it.
struct PipelineGeometry {
  std::int64_t piece = 0;   ///< bytes of a row that a block has
  std::int64_t chunks = 0;  ///< of a piece
  std::int64_t chunk = 0;   ///< bytes
  std::int64_t vectors_of_a_lane = 0;
  std::int64_t smem_bytes = 0;
};
PipelineGeometry pipeline_geometry(const TypedConfig& config, const Shape& shape) noexcept;
/// Room for what lies behind the ring: barriers, records, what is known of rows.
std::int64_t pipeline_control_bytes(const TypedConfig& config) noexcept;

/// Empty, or why rows of this shape cannot stream so.
std::string why_not_streamed(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// The first that is valid of what is worth trying; well-formed in any case.
TypedConfig pipeline_default(const Shape& shape, const DeviceInfo& device);
/// Rows long enough and many enough that streaming them won on an H200.
bool worth_streaming(const Shape& shape, const DeviceInfo& device) noexcept;
/// The best that was measured first; `full`: their neighbours too.
std::vector<TypedConfig> pipelines_to_try(const Shape& shape, const DeviceInfo& device, bool full);

}  // namespace tunesmith::row
