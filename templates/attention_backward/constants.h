#pragma once
// The constants of the generated kernels of attention's backward pass. Internal to templates/attention_backward.

#include <string>

#include "templates/attention_backward/search/config.h"

namespace tunesmith::attention_backward {

/// Returns SourceParts::constants: the element type, user functions, shapes, the configuration, and assertions of the host's
/// assumptions.
std::string constants_text(const TypedConfig& config, const Settings& settings);

}  // namespace tunesmith::attention_backward
