#pragma once
// The known name that a mistyped one probably means.

#include <span>
#include <string_view>

namespace tunesmith {

/// Empty when no name is near: at most a third of the letters may differ.
std::string_view nearest_name(std::string_view given, std::span<const std::string_view> known);

}  // namespace tunesmith
