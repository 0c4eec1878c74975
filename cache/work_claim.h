#pragma once
// Ensures that at most one process works on a key, such as compiling a binary or tuning.

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace tunesmith {

/// The right to work on a key, among all threads and processes that use the same cache file; without one, among the threads
/// that use the same Cache. Ends with the object, and with the process, however it dies.
class WorkClaim {
 public:
  /// Claims nothing.
  WorkClaim() = default;
  /// Holds a key of ThreadClaims.
  explicit WorkClaim(std::shared_ptr<const void> thread_claim) : thread_claim_(std::move(thread_claim)) {}
  ~WorkClaim();
  WorkClaim(WorkClaim&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        owner_(other.owner_),
        thread_claim_(std::move(other.thread_claim_)) {}
  WorkClaim& operator=(WorkClaim&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(owner_, other.owner_);
    std::swap(thread_claim_, other.thread_claim_);
    return *this;
  }

  bool claims_nothing() const noexcept { return descriptor_ < 0 && thread_claim_ == nullptr; }

  /// Waits at most `wait` for another owner of `key`; returns nothing if it still works then. `lock_file` is created, with
  /// its folder, for this user only; it stays empty: a key is a lock on the byte at its hash. Two keys with the same hash
  /// exclude each other, which costs time only. Where files cannot be locked, the result claims nothing.
  static std::optional<WorkClaim> take(const std::filesystem::path& lock_file, std::string_view key,
                                       std::chrono::milliseconds wait);

 private:
  explicit WorkClaim(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
  pid_t owner_ = getpid();  // a forked child must not end its parent's claim
  std::shared_ptr<const void> thread_claim_;
};

}  // namespace tunesmith
