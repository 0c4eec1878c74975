#pragma once
// The lock file beside a cache file. SQLite's own locks order transactions; this one orders what SQLite cannot know about:
// creating the file, migrating it, and moving a broken one out of the way while others may have it open.

#include <filesystem>

namespace tunesmith {

/// Not thread-safe. A crashed process releases its locks.
class FileLock {
 public:
  enum class Kind {
    shared,     ///< using the file under its name
    exclusive,  ///< creating, migrating or renaming it
  };

  explicit FileLock(std::filesystem::path file) : file_(std::move(file)) {}
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Waits up to `timeout_ms`; throws SqliteError(SQLITE_BUSY) after that. Where the lock file cannot be opened a shared
  /// lock is taken for granted (a read-only folder: nobody can rename anything there either) and an exclusive one throws
  /// SqliteError(SQLITE_CANTOPEN). Where the file system has no such locks both are taken for granted.
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
