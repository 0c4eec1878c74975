#pragma once
// Moves a damaged file aside.

#include <filesystem>

namespace tunesmith {

/// Renames `file` to "<file>.corrupt-<UTC time>", together with its journals, so that none of them is applied to a new file.
/// Call it with the exclusive file lock and without an open connection of this process. Returns the new name; throws
/// std::filesystem::filesystem_error if the file cannot be renamed.
std::filesystem::path move_aside(const std::filesystem::path& file);

}  // namespace tunesmith
