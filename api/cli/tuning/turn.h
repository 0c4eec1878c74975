#pragma once
// Turns on a GPU: a process that has compiled waits until the parent gives it the turn.

#include <atomic>

namespace tunesmith::cli {

/// A turn that the parent gives once. The child waits at the other end of a pipe, its stdin. Thread-safe.
class Turn {
 public:
  /// Throws Error(io).
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void give() noexcept;
  bool is_given() const noexcept { return given_; }
  /// The end that becomes the stdin of the child.
  int child_end() const noexcept { return read_end_; }

 private:
  int read_end_ = -1, write_end_ = -1;
  std::atomic<bool> given_{false};
};

/// Returns true when the turn is given at the other end of `child_end`; false when that process has ended without giving it,
/// or soon after `cancel` has become true.
bool wait_for_turn(int child_end, const std::atomic<bool>& cancel);

}  // namespace tunesmith::cli
