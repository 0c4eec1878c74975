#include "tests/support/source_tree.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace tunesmith {
namespace {

bool is_skipped_folder(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  // "shared" may be in a checkout but is not part of the project.
  return name.starts_with(".") || name.starts_with("build") || name == "golden" || name == "shared";
}

}  // namespace

SourceTree read_source_tree(const std::filesystem::path& root) {
  if (!std::filesystem::exists(root / "CMakePresets.json")) throw std::runtime_error("no repository at " + root.string());
  SourceTree tree;
  auto entry = std::filesystem::recursive_directory_iterator(root);
  for (; entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory()) {
      if (is_skipped_folder(entry->path())) entry.disable_recursion_pending();
      continue;
    }
    const std::string name = entry->path().filename().string();
    if (!entry->is_regular_file() || name.starts_with(".")) continue;
    std::ifstream file(entry->path(), std::ios::binary);
    std::string contents{std::istreambuf_iterator<char>(file), {}};
    if (contents.find('\0') != std::string::npos) continue;
    tree[std::filesystem::relative(entry->path(), root).generic_string()] = std::move(contents);
  }
  return tree;
}

}  // namespace tunesmith
