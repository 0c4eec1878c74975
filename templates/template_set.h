#pragma once
// The device code that sources are rendered from: embedded in the library, or read from a folder while editing.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tunesmith {

/// Immutable; cheap to copy, because copies share their contents. Thread-safe.
class TemplateSet {
 public:
  /// The files that CMake embedded. Their digests were computed by the build.
  static const TemplateSet& embedded();
  /// Every *.cuh below the folder, by relative path. Throws Error(io).
  static TemplateSet from_folder(const std::filesystem::path& folder);

  /// Throws Error(not_found) naming the file.
  std::string_view file(std::string_view name) const;
  /// The named file with its #include "..." lines replaced by those files, each once, marked by #line directives.
  std::string flatten(std::string_view name) const;

  /// Returns 32 hex digits over the tokens of flatten(name): comments, blanks and the division into files do not count.
  /// Throws Error(not_found).
  std::string digest(std::string_view name) const;
  /// Returns 32 hex digits over every kernel of a folder: of "softmax", the digests of those files of softmax/ that no other
  /// template includes. Throws Error(not_found) for a folder without templates.
  std::string folder_digest(std::string_view folder) const;

  using Files = std::map<std::string, std::string_view, std::less<>>;
  const Files& files() const noexcept;

 private:
  struct Contents;
  explicit TemplateSet(std::shared_ptr<const Contents> contents);

  std::shared_ptr<const Contents> contents_;
};

}  // namespace tunesmith
