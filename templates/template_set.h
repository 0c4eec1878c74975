#pragma once
// The device code that sources are rendered from: embedded in the library, or read from a folder during development.

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tunesmith {

/// Returns name for #include "name", and an empty string for any other line (angle brackets are left to the compiler).
std::string_view quoted_include(std::string_view line);

/// Immutable and thread-safe. Cheap to copy, because copies share their contents.
class TemplateSet {
 public:
  /// Returns the embedded files. The build computed their digests.
  static const TemplateSet& embedded();
  /// Reads every *.cuh in the folder and its subfolders. Throws Error(io).
  static TemplateSet from_folder(const std::filesystem::path& folder);

  /// Returns the contents of a file. Throws Error(not_found) with its name.
  std::string_view file(std::string_view name) const;
  /// Returns the file with every #include "..." replaced by that file, each file once, marked by #line directives.
  std::string flatten(std::string_view name) const;
  /// Returns the same for a file that includes these.
  std::string flatten(std::span<const std::string> names) const;

  /// Returns 32 hex digits. Of a file, "softmax/resident.cuh": over the tokens of flatten(name), so comments, blanks and the
  /// division into files are ignored. Of a folder, "softmax": over the digests of its files that no other template includes.
  /// Throws Error(not_found).
  std::string digest(std::string_view name) const;
  /// Returns 32 hex digits over the digests of files and folders; for a single one, its digest.
  std::string digest(std::span<const std::string> names) const;

  using Files = std::map<std::string, std::string_view, std::less<>>;
  const Files& files() const noexcept;

 private:
  struct Contents;
  explicit TemplateSet(std::shared_ptr<const Contents> contents);

  std::shared_ptr<const Contents> contents_;
};

}  // namespace tunesmith
