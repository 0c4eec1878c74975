#pragma once
// Finds the known name that is nearest to a mistyped one.

#include <span>
#include <string_view>

namespace tunesmith {

/// Returns the nearest known name; empty if more than a third of the letters differ.
std::string_view nearest_name(std::string_view given, std::span<const std::string_view> known);

}  // namespace tunesmith
