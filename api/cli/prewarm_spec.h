#pragma once
// The file that says what to make ready: {"problems": [{"op": "softmax", "rows": 4096, "cols": [1024, 32000]}, ...]}.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/problem.h"

namespace tunesmith::cli {

/// Normalized problems in the order of the file, each once; the lists of an entry multiply, the last one varying fastest.
/// Throws Error(invalid_argument) that names `file` and the place, e.g. "problems[2].cols[0] is 0; ...".
std::vector<Problem> parse_spec(std::string_view text, const std::string& file);
/// Throws also Error(not_found | io).
std::vector<Problem> read_spec(const std::filesystem::path& file);

}  // namespace tunesmith::cli
