#pragma once
// The files of the repository, for tests that read them.

#include <filesystem>
#include <map>
#include <string>

namespace tunesmith {

/// Contents by path, relative to the root of the repository and with '/'.
using SourceTree = std::map<std::string, std::string>;

/// Reads every text file of the project except hidden, built, downloaded and generated ones (golden sources, pictures).
/// .clang-format, .clang-tidy and .ci/run are hidden, too. Throws std::runtime_error if `root` is not the repository.
SourceTree read_source_tree(const std::filesystem::path& root);

}  // namespace tunesmith
