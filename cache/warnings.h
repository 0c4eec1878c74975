#pragma once
// Collects warnings, each once, to deliver them after the lock is released.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/utf8.h"

namespace tunesmith {

class Warnings {
 public:
  /// Adds a warning. `thing` identifies the problem; a second warning about it is dropped. Messages may
  /// quote a damaged file: bytes that are not text are replaced.
  void once(const std::string& thing, const std::string& message) {
    if (given_.insert(thing).second) pending_.push_back(printable(message));
  }
  /// Returns the warnings that were not delivered yet.
  std::vector<std::string> take() { return std::exchange(pending_, {}); }

 private:
  std::set<std::string> given_;
  std::vector<std::string> pending_;
};

}  // namespace tunesmith
