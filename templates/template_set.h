#pragma once
// The device code that sources are rendered from: embedded in the library, or read from a folder while editing.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace tunesmith {

class TemplateSet {
 public:
  /// The files that CMake embedded.
  static const TemplateSet& embedded();
  /// Every *.cuh below the folder, by relative path. Throws Error(io).
  static TemplateSet from_folder(const std::filesystem::path& folder);

  /// Throws Error(not_found) naming the file.
  const std::string& file(std::string_view name) const;
  /// The named file with its #include "..." lines replaced by those files, each once, marked by #line directives.
  std::string flatten(std::string_view name) const;
  /// 32 hex digits over flatten(name): changes when any line that a kernel sees changes.
  std::string digest(std::string_view name) const;

  const std::map<std::string, std::string, std::less<>>& files() const noexcept { return files_; }

 private:
  std::map<std::string, std::string, std::less<>> files_;
};

}  // namespace tunesmith
