#pragma once
// A source that is rendered, or read from the cache, when somebody asks for it. Internal.

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace tunesmith {

/// Thread-safe.
class SourceText {
 public:
  /// `fetch` is called at most once with success.
  explicit SourceText(std::function<std::string()> fetch) : fetch_(std::move(fetch)) {}

  /// Throws what `fetch` throws.
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
