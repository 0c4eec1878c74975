#pragma once
// The layout that generated kernels of attention's backward pass and their launches share: blocks, the kernels' argument,
// the workspace. Internal to templates/attention_backward.

#include <cstddef>
#include <cstdint>
#include <string>

#include "templates/attention_backward/search/config.h"
#include "templates/attention_backward/wgmma_params.cuh"

namespace tunesmith::attention_backward {

using Params = AttentionBackwardParams;

// As in prepare.cuh, heads.cuh and wgmma_dq.cuh.
inline constexpr std::int64_t prepare_threads = 256, prepare_neighbours = 8, heads_threads = 256, wgmma_dq_threads = 256;

/// Returns the number of tiles that hold these positions.
constexpr std::int64_t tiles(std::int64_t positions, std::int64_t tile) { return (positions + tile - 1) / tile; }

/// Returns the rows of a block of the first kernel; see PrepareLanes.
std::int64_t prepare_rows(const Settings& settings);
/// Returns the blocks of the first kernel. The rows of each head are in groups; see prepared_row().
std::int64_t prepare_blocks(const Settings& settings, const Params& params);

/// Parameter struct of the main kernel, and its part that the prepare and finish kernels take.
struct Argument {
  const char *type, *own, *common;  ///< own: what the kernels of the variant take
  std::size_t bytes;
};
Argument argument_of(const TypedConfig& config, const Settings& settings);

/// Returns the name of the kernel of wgmma that computes dk and dv.
const char* keys_kernel(const TypedConfig& config);
/// Returns whether there are gradients of sinks or of ALiBi slopes, which have a kernel of their own.
bool has_heads_kernel(const Settings& settings);

/// Where the workspace's parts begin, in bytes.
struct Workspace {
  std::int64_t lse, delta, slopes, sums, counters, aux, end;
};
Workspace workspace_of(const TypedConfig& config, const Settings& settings);

/// Returns the parameters of all kernels, without addresses.
Params parameters(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);
/// Returns where the address of an array is stored in the kernels' argument.
std::uint32_t pointer_offset(std::string_view array, const Settings& settings, bool wgmma);

}  // namespace tunesmith::attention_backward
