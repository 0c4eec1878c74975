#pragma once
// Configurations of each variant that are worth a measurement, the best guess first: the first valid one is the variant's
// default. Unless a comment says otherwise, they are well-formed, but not necessarily valid. Internal to
// templates/attention_backward.

#include <vector>

#include "templates/attention_backward/search/config.h"

namespace tunesmith::attention_backward {

/// Returns simt tiles, the largest first.
std::vector<TypedConfig> simt_candidates();

/// Returns all combinations of both kernels of mma; combinations of the best kernels come first.
std::vector<TypedConfig> mma_candidates(const Settings& settings);

/// Returns the kernels with wgmma, without head splits.
std::vector<TypedConfig> wgmma_candidates(const Settings& settings, const DeviceInfo& device);

/// Returns valid configurations with two wgmma kernels: one computes dk and dv, the other one dq.
std::vector<TypedConfig> two_kernel_candidates(const Settings& settings, const DeviceInfo& device);
/// Returns whether wgmma is faster with a kernel of its own for dq: measured on an H100 (NOTES.md, "Two kernels"). Above
/// head_dim 128 the additions to dq cost more than computing S and dP twice. Below, it is faster for few blocks: blocks of
/// both kernels run next to each other, under a causal mask while the longest blocks of the first kernel run.
bool two_kernels_are_faster(const Settings& settings, const DeviceInfo& device);

/// Returns the head split of a valid configuration with the shortest estimated time. Under a causal mask the longest block
/// has twice the work of the mean, and blocks begin in the order of their lengths; otherwise all take as long.
int best_head_split(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);

/// Returns a configuration with twice and with half the head split.
std::vector<TypedConfig> other_head_splits(const TypedConfig& config);

/// Returns the default of a variant: its first valid configuration, with the best head split, or its first one.
TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device);

// Properties of a problem that decide about configurations.

/// Returns the larger one of the two head dimensions.
std::int64_t widest_head(const Settings& settings);
/// Returns whether no option changes scores or drops weights.
bool keeps_scores(const attention::Settings& forward);
/// Returns whether no mask_mod hides scores, either.
bool has_plain_scores(const attention::Settings& forward);
/// Returns whether there are no ALiBi slopes, packed sequences and left ends of windows.
bool is_dense(const attention::Settings& forward);
/// Returns whether scores are plain and dense.
bool is_plain(const attention::Settings& forward);

/// Returns a configuration of wgmma with a third stage instead of a fourth warpgroup.
TypedConfig with_third_stage(TypedConfig config);

}  // namespace tunesmith::attention_backward
