#pragma once
// Parts of the sources and parameters of all attention kernels, forward and backward. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/attention/params.cuh"
#include "templates/attention/settings.h"
#include "templates/attention/source/options.h"

namespace tunesmith::attention {

using Params = AttentionParams;

/// Returns a tensor's strides as a kernel takes them.
AttentionStrides strides_of(const Tensor& tensor);
/// Returns the parameters that do not depend on the configuration; q_tiles and splits are 0.
Params parameters_of(const Settings& settings);
/// Returns the parameters of pages and lengths in device memory, without addresses.
AttentionPages pages_of(const Settings& settings);
/// Returns the parameters of scales of keys and values, without addresses.
AttentionScales scales_of(const Settings& settings);
/// Returns the parameters of dropout, without the address of rng_state.
AttentionDropout dropout_of(const Settings& settings);
/// Returns where the address of an array of the forward pass is stored in Params. Throws Error(unsupported) for other names.
std::uint32_t pointer_offset(std::string_view array, const Settings& settings);

/// Returns the AttentionShape `shape`. Members with default values are omitted.
std::string shape_text(const Settings& settings);

/// Returns AttentionFeatures<shape>.
std::string features_text(const Settings& settings, const FeatureUse& use);

/// Returns SourceParts::specialized_for.
std::vector<std::pair<std::string, std::string>> specialized_for(const Settings& settings);

}  // namespace tunesmith::attention
