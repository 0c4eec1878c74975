// A private folder for the files of one compilation or load.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tunesmith::host {

/// A folder with a unique name that only this user can read. The destructor removes it with its contents.
class TemporaryFolder {
 public:
  /// Creates the folder. Throws Error(io).
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Writes a file and returns its path. Throws Error(io).
  std::string write(std::string_view name, std::string_view contents) const;
  /// Returns a file's contents; empty if there is no such file.
  std::string read(std::string_view name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace tunesmith::host
