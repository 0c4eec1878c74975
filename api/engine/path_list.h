#pragma once
// Lists of paths separated by ':', as in environment variables and the C API. Internal.

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

namespace tunesmith {

/// Splits a list of paths; skips empty parts.
inline std::vector<std::filesystem::path> split_paths(std::string_view text) {
  std::vector<std::filesystem::path> paths;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(':'));
    if (!part.empty()) paths.emplace_back(part);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
  return paths;
}

}  // namespace tunesmith
