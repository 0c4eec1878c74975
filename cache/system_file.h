#pragma once
// A read-only cache file, such as the shipped one; never written and never locked.

#include <filesystem>
#include <functional>
#include <optional>

#include "cache/connection.h"
#include "cache/warnings.h"

namespace tunesmith {

/// A read-only cache file, opened on the first read. If it is absent, damaged or has another version, warns once and ignores
/// it from then on. Not thread-safe.
class SystemFile {
 public:
  /// `warnings` must outlive the object.
  SystemFile(std::filesystem::path file, Warnings& warnings) : file_(std::move(file)), warnings_(&warnings) {}

  /// Runs `work`; returns false if it did not complete.
  bool read(const std::function<void(Connection&)>& work);
  const std::filesystem::path& path() const noexcept { return file_; }
  /// Returns the reason why the file is ignored; empty if none is known.
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
