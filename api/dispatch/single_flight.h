#pragma once
// Values made once per key: the first caller makes, callers with the same key wait for it, callers with other keys do not.

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace tunesmith {

/// Thread-safe. Value: cheap to copy.
template <typename Value>
class SingleFlight {
 public:
  /// The value if it is finished; never waits for one being made.
  std::optional<Value> find(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto entry = values_.find(key);
    if (entry == values_.end() || entry->second.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return std::nullopt;
    return entry->second.get();
  }

  /// The value, made by `make` if nobody did. What `make` throws reaches everyone who waits and is then forgotten, so that
  /// the next call tries again. `make` must not ask for its own key.
  Value get(const std::string& key, const std::function<Value()>& make) {
    std::promise<Value> promise;
    {
      std::unique_lock lock(mutex_);
      const auto [entry, is_first] = values_.try_emplace(key);
      if (!is_first) {
        const std::shared_future<Value> value = entry->second;
        lock.unlock();
        return value.get();
      }
      entry->second = promise.get_future().share();
    }
    try {
      Value value = make();
      promise.set_value(value);
      return value;
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        values_.erase(key);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  /// Values that are finished or being made.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<Value>> values_;  // failed ones are erased before they become ready
};

}  // namespace tunesmith
