#pragma once
// The tuning key of an attention problem, and its FLOPs. Internal to templates/.

#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

KeyParts key_of(const Settings& settings);
/// Returns which Q tiles leave the fewest rows beyond the end of a sequence, as part of the problem class: a bucket
/// of lengths is divided by it. Empty where Q tiles of 128 do, as for powers of two, and where it matters little.
std::string padding_class(const Settings& settings);
/// Returns the visible pairs of a query and a key in all heads and sequences.
double total_visible_pairs(const Settings& settings) noexcept;

}  // namespace tunesmith::attention
