#pragma once
// The user's cache file through its life: absent, created, migrated, broken and moved aside, unwritable, not ours.

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

/// Opens lazily, keeps the connection, notices when the file behind the name has changed. Not thread-safe.
class UserFile {
 public:
  /// `warnings` must outlive the object.
  UserFile(const std::filesystem::path& file, int busy_timeout_ms, Warnings& warnings, Migrations steps = migrations());

  enum class Outcome {
    done,    ///< the work ran (and for a write was committed)
    absent,  ///< nothing has been written yet; not a failure
    failed,  ///< failure() says why; warned about
  };
  /// Runs after a failed attempt too: it must be repeatable. May throw SqliteError.
  using Work = std::function<void(Connection&)>;

  /// Never creates anything.
  Outcome read(const Work& work);
  /// Runs the work in one transaction, creating or migrating the file first when needed. Never returns absent.
  Outcome write(const Work& work);
  const std::filesystem::path& path() const noexcept { return file_; }
  /// How often a broken file was moved aside, and where the last one went.
  int recoveries() const noexcept { return recoveries_; }
  const std::filesystem::path& last_aside() const noexcept { return last_aside_; }
  /// What the last failed call ran into.
  const std::string& failure() const noexcept { return failure_; }
  /// Why results are not kept, as far as it is known without trying; empty: they are.
  std::string why_not_writable() const;

 private:
  enum class Opened { ready, absent, older, refused };

  Outcome run(bool writing, const Work& work);
  Opened open(bool writing);
  /// A file and what is in it. The connection only reads, if that suffices.
  struct Inspected {
    Connection connection;
    SchemaCheck found;
  };
  Inspected inspect() const;
  void set_up();
  /// Decides what an error means. True: try again.
  bool handle(const SqliteError& error, bool writing, int attempt);
  bool recover(const SqliteError& error);
  void refuse(const FileIdentity& identity, const std::string& why);
  void fail(const std::string& why, bool writing, bool busy);

  const std::filesystem::path file_;
  const int busy_timeout_ms_;
  Warnings& warnings_;
  const Migrations steps_;
  FileLock lock_;
  std::optional<Connection> connection_;
  bool connection_writes_ = false;
  bool reading_fails_ = false;           // a connection that only reads was not enough
  FileIdentity identity_;                // of the file that connection_ has open, or that was looked at last
  std::optional<FileIdentity> refused_;  // a file that is left alone until another one takes its name
  std::string refusal_;
  std::string failure_;
  std::string write_failure_;  // of the last write; empty after one that worked
  int recoveries_ = 0;
  std::filesystem::path last_aside_;
};

}  // namespace tunesmith
