#pragma once
// The user's cache file and its states: absent, created, migrated, damaged and moved aside, read-only, not a cache.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cache/connection.h"
#include "cache/file_lock.h"
#include "cache/file_system.h"
#include "cache/schema.h"
#include "cache/warnings.h"

namespace tunesmith {

/// The user's cache file. Opens it lazily, keeps the connection, and detects that the name refers to another file. Not
/// thread-safe.
class UserFile {
 public:
  /// `warnings` must outlive the object.
  UserFile(const std::filesystem::path& file, int busy_timeout_ms, Warnings& warnings, Migrations steps = migrations());

  enum class Outcome {
    done,    ///< the work ran, and a write was committed
    absent,  ///< there is no file yet; not a failure
    failed,  ///< failure() returns the reason; a warning was given
  };
  /// Work on the connection. It may run again after a failed attempt, so it must be repeatable. May throw SqliteError.
  using Work = std::function<void(Connection&)>;

  /// Runs the work for reading. Never creates the file.
  Outcome read(const Work& work);
  /// Runs the work in one transaction; creates or migrates the file first if necessary. Never returns absent.
  Outcome write(const Work& work);
  const std::filesystem::path& path() const noexcept { return file_; }
  /// Number of damaged files moved aside, and the new name of the last one.
  int recoveries() const noexcept { return recoveries_; }
  const std::filesystem::path& last_aside() const noexcept { return last_aside_; }
  /// The error of the last failed call.
  const std::string& failure() const noexcept { return failure_; }
  /// Returns the reason why results do not persist, without trying to write; empty if none is known.
  std::string why_not_writable() const;

 private:
  enum class Opened { ready, absent, older, rejected };

  Outcome run(bool writing, const Work& work);
  Opened open(bool writing);
  /// A file and its contents. The connection only reads, if that suffices.
  struct Inspected {
    Connection connection;
    SchemaCheck found;
  };
  Inspected inspect() const;
  void set_up();
  /// Handles an error; returns true if the call should be repeated.
  bool handle(const SqliteError& error, bool writing, int attempt);
  bool recover(const SqliteError& error);
  void reject(const FileIdentity& identity, const std::string& why);
  void fail(const std::string& why, bool writing, bool busy);

  const std::filesystem::path file_;
  const int busy_timeout_ms_;
  Warnings& warnings_;
  const Migrations steps_;
  FileLock lock_;
  std::optional<Connection> connection_;
  bool connection_writes_ = false;
  bool reading_fails_ = false;            // a read-only connection does not suffice
  FileIdentity identity_;                 // of the file that connection_ has open, or that was checked last
  std::optional<FileIdentity> rejected_;  // a file that is not used, until another file has its name
  std::string rejection_;
  std::string failure_;
  std::string write_failure_;  // of the last write; empty after a successful one
  int recoveries_ = 0;
  std::filesystem::path last_aside_;
};

}  // namespace tunesmith
