#pragma once
// Getting a broken file out of the way without losing it.

#include <filesystem>

namespace tunesmith {

/// Renames `file` to "<file>.corrupt-<UTC time>" and its journals with it, so that none of them is applied to a new file of
/// the old name. Call under the exclusive file lock, with no connection of this process open on it. Returns the new name;
/// throws std::filesystem::filesystem_error when the file cannot be renamed.
std::filesystem::path move_aside(const std::filesystem::path& file);

}  // namespace tunesmith
