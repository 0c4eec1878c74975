#pragma once
// The pipeline variant (row/schedules/pipeline.cuh): layout of a row in shared memory, validity, and configurations to try.
// Internal to templates/row.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

/// The producer's and the finisher's warps.
inline constexpr int pipeline_extra_threads = 64;

/// Computed as in row/schedules/pipeline.cuh.
struct PipelineGeometry {
  std::int64_t piece = 0;   ///< bytes of a row of one input per block
  std::int64_t chunks = 0;  ///< per piece
  std::int64_t chunk = 0;   ///< bytes of one input
  std::int64_t vectors_of_a_lane = 0;
  std::int64_t smem_bytes = 0;
};
PipelineGeometry pipeline_geometry(const TypedConfig& config, const Shape& shape) noexcept;
/// Returns the size of the control block after the ring: barriers, records, row info.
std::int64_t pipeline_control_bytes(const TypedConfig& config, const Shape& shape) noexcept;

/// Returns why rows of this shape cannot be streamed; empty if they can.
std::string why_not_streamed(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Returns the first valid configuration to try; well-formed in any case.
TypedConfig pipeline_default(const Shape& shape, const DeviceInfo& device);
/// Returns whether there are enough rows and columns for streaming to be among the fastest.
bool may_stream(const Shape& shape, const DeviceInfo& device) noexcept;
/// Returns whether streaming is the fastest, as measured on an H200.
bool worth_streaming(const Shape& shape, const DeviceInfo& device) noexcept;
/// Returns the configurations to try, the fastest measured ones first; `full`: also their neighbours.
std::vector<TypedConfig> pipelines_to_try(const Shape& shape, const DeviceInfo& device, bool full);

}  // namespace tunesmith::row
