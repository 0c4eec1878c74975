#pragma once
// Keys that the server did not have a short time ago.

#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>

#include "fleet/protocol/deadline.h"

namespace tunesmith::fleet {

/// Thread-safe.
class Misses {
 public:
  static constexpr std::size_t most = 16384;
  static constexpr Milliseconds remembered{60'000};

  explicit Misses(std::function<Deadline()> now = Clock::now) : now_(std::move(now)) {}

  bool contains(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = until_.find(key);
    if (found == until_.end()) return false;
    if (now_() < found->second) return true;
    until_.erase(found);
    return false;
  }
  /// Remembers a key for 45 to 75 s, so that hosts that started together do not ask together.
  void add(const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (until_.size() >= most) until_.clear();
    const double factor = std::uniform_real_distribution(0.75, 1.25)(random_);
    until_[key] = now_() + std::chrono::duration_cast<Milliseconds>(remembered * factor);
  }
  void erase(const std::string& key) {
    const std::lock_guard lock(mutex_);
    until_.erase(key);
  }

 private:
  std::function<Deadline()> now_;
  std::mutex mutex_;
  std::unordered_map<std::string, Deadline> until_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace tunesmith::fleet
