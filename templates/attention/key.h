#pragma once
// What of an attention problem decides which configuration is fast, and how much work it is. Internal to templates/.

#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

KeyParts key_of(const Settings& settings);
/// Returns the visible pairs of a query and a key in all heads and sequences.
double total_visible_pairs(const Settings& settings) noexcept;

}  // namespace tunesmith::attention
