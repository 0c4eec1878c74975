#pragma once
// A cache file that was shipped: read, never written, never locked.

#include <filesystem>
#include <functional>
#include <optional>

#include "cache/connection.h"
#include "cache/warnings.h"

namespace tunesmith {

/// Opened on the first read. A file that is absent, sick or of another version is warned about once and ignored from then
/// on. Not thread-safe.
class SystemFile {
 public:
  /// `warnings` must outlive the object.
  SystemFile(std::filesystem::path file, Warnings& warnings) : file_(std::move(file)), warnings_(&warnings) {}

  /// False when the work did not run to its end.
  bool read(const std::function<void(Connection&)>& work);
  const std::filesystem::path& path() const noexcept { return file_; }
  /// Why the file is not used; empty as long as nothing is known against it.
  const std::string& why_ignored() const noexcept { return why_ignored_; }

 private:
  void open();
  void disable(const std::string& why);

  std::filesystem::path file_;
  Warnings* warnings_;
  std::optional<Connection> connection_;
  std::string why_ignored_;
};

}  // namespace tunesmith
