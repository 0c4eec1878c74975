#pragma once
// The lock file next to a cache file. SQLite's own locks order transactions; this one orders creating the file, migrating
// it, and moving a damaged one aside while other processes may have it open.

#include <filesystem>

namespace tunesmith {

/// A shared or exclusive lock on a file. Not thread-safe. The lock of a crashed process is released.
class FileLock {
 public:
  enum class Kind {
    shared,     ///< for using the file
    exclusive,  ///< for creating, migrating or renaming it
  };

  explicit FileLock(std::filesystem::path file) : file_(std::move(file)) {}
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Takes the lock; throws SqliteError(SQLITE_BUSY) after `timeout_ms`. If the lock file cannot be opened, a shared lock
  /// succeeds without locking (nobody can rename files in a read-only folder), and an exclusive one throws
  /// SqliteError(SQLITE_CANTOPEN). If the file system does not support locks, both succeed without locking.
  void lock(Kind kind, int timeout_ms);
  void unlock();

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  bool locked_ = false;
};

/// Holds a lock for a scope.
class FileLease {
 public:
  FileLease(FileLock& lock, FileLock::Kind kind, int timeout_ms) : lock_(lock) { lock_.lock(kind, timeout_ms); }
  ~FileLease() { lock_.unlock(); }
  FileLease(const FileLease&) = delete;
  FileLease& operator=(const FileLease&) = delete;

 private:
  FileLock& lock_;
};

}  // namespace tunesmith
