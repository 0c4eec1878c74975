#pragma once
// Where the checkout is, for tests that read its files.

#include <filesystem>

namespace tunesmith {

/// Returns the folder that the tests were built from.
const std::filesystem::path& source_folder();

}  // namespace tunesmith
