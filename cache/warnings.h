#pragma once
// Collects what degrades the cache, each thing once, so that it can be told after the lock is released.

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tunesmith {

class Warnings {
 public:
  /// `thing` identifies what is wrong; a second warning about it is dropped.
  void once(const std::string& thing, std::string message) {
    if (given_.insert(thing).second) pending_.push_back(std::move(message));
  }
  /// What has not been delivered yet.
  std::vector<std::string> take() { return std::exchange(pending_, {}); }

 private:
  std::set<std::string> given_;
  std::vector<std::string> pending_;
};

}  // namespace tunesmith
