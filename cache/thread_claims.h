#pragma once
// Ensures that at most one thread works on a key, for caches without a lockable file.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace tunesmith {

/// Keys that threads of this process work on. Thread-safe; claims may outlive it.
class ThreadClaims {
 public:
  /// Claims `key` until the returned object ends. Waits at most `wait` for another owner; returns null if it still works
  /// then.
  std::shared_ptr<const void> take(std::string_view key, std::chrono::milliseconds wait);

 private:
  struct Keys {
    std::mutex mutex;
    std::condition_variable released;
    std::set<std::string, std::less<>> claimed;
  };

  std::shared_ptr<Keys> keys_ = std::make_shared<Keys>();
};

}  // namespace tunesmith
