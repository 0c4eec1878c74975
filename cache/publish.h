#pragma once
// Publishes a finished file atomically.

#include <filesystem>

namespace tunesmith {

/// Returns a unique name in the folder of `target` for the unfinished file.
std::filesystem::path unfinished_name(const std::filesystem::path& target);

/// Syncs `file` to disk and renames it to `target`. Throws Error(cache_failed), also if `target` exists by now.
void publish(const std::filesystem::path& file, const std::filesystem::path& target);

}  // namespace tunesmith
