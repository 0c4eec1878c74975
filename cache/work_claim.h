#pragma once
// At most one process works on a key: compiles its binary, tunes it.

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace tunesmith {

/// The right to work on a key, among all threads and processes that use the same cache file. Ends with the object, and with
/// the process, however it dies.
class WorkClaim {
 public:
  /// Claims nothing; for caches without a file, and file systems without locks.
  WorkClaim() = default;
  ~WorkClaim();
  WorkClaim(WorkClaim&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), owner_(other.owner_) {}
  WorkClaim& operator=(WorkClaim&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(owner_, other.owner_);
    return *this;
  }

  /// Waits at most `wait` for another owner of `key`; returns nothing if it still works then. `lock_file` is created, with
  /// its folder, for this user only; it stays empty: a key is a lock on the byte at its hash. Two keys with the same hash
  /// exclude each other, which costs time only.
  static std::optional<WorkClaim> take(const std::filesystem::path& lock_file, std::string_view key,
                                       std::chrono::milliseconds wait);

 private:
  explicit WorkClaim(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
  pid_t owner_ = getpid();  // a forked child must not end its parent's claim
};

}  // namespace tunesmith
