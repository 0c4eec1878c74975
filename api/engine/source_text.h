#pragma once
// A source that is rendered, or read from the cache, on first use. Internal.

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace tunesmith {

/// Thread-safe.
class SourceText {
 public:
  /// Calls `fetch` until it succeeds once.
  explicit SourceText(std::function<std::string()> fetch) : fetch_(std::move(fetch)) {}

  /// Returns the source. Throws the errors of `fetch`.
  const std::string& get() const {
    std::call_once(once_, [this] {
      text_ = fetch_();
      fetch_ = nullptr;
    });
    return text_;
  }

 private:
  mutable std::once_flag once_;
  mutable std::function<std::string()> fetch_;
  mutable std::string text_;
};

}  // namespace tunesmith
