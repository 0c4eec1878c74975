#pragma once
// The repository's own files, for tests that read them instead of running them.

#include <map>
#include <string>

namespace tunesmith {

/// Path relative to the repository root, with '/' -> contents.
using SourceTree = std::map<std::string, std::string>;

/// Every text file that belongs to the project: not what is hidden, built, downloaded or generated (golden sources,
/// pictures). .clang-format, .clang-tidy and .ci/run are left out with the hidden ones. Throws std::runtime_error when
/// `root` is not the repository.
SourceTree read_source_tree(const std::string& root);

}  // namespace tunesmith
