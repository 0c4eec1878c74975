#pragma once
// Making a finished file appear under its name: complete or not at all.

#include <filesystem>

namespace tunesmith {

/// A name beside `target` for the file in the making; nobody else uses it.
std::filesystem::path unfinished_name(const std::filesystem::path& target);

/// Forces `file` to disk and renames it to `target`. Throws Error(cache_failed), also when `target` exists by now.
void publish(const std::filesystem::path& file, const std::filesystem::path& target);

}  // namespace tunesmith
