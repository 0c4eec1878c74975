#pragma once
// Programs that the library ships. Internal to templates/.

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tunesmith::row_program {

/// Returns names ("rms_norm") and texts of all shipped programs, in the order of their names.
std::span<const std::pair<std::string_view, std::string_view>> shipped_programs();

/// Returns the text of a shipped program, or of the gradient of one ("rms_norm_gradient"); empty for other names.
std::string shipped_program(std::string_view name);

}  // namespace tunesmith::row_program
