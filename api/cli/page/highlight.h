#pragma once
// Syntax highlighting of CUDA source.

#include <string>
#include <string_view>

namespace tunesmith::cli {

/// Returns the source as HTML: comments, directives, literals and keywords in <span class="c|d|s|n|k">. The text of the
/// result is the source.
std::string highlighted(std::string_view source);

}  // namespace tunesmith::cli
