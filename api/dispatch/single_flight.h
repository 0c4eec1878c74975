#pragma once
// Values made once per key: the first caller makes, callers with the same key wait for it, callers with other keys do not.

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tunesmith {

/// Thread-safe. Value: cheap to copy. At most `capacity` finished values are kept; beyond it, the least recently used go
/// first.
template <typename Value>
class SingleFlight {
 public:
  explicit SingleFlight(std::size_t capacity = std::numeric_limits<std::size_t>::max()) : capacity_(capacity) {}

  /// Returns the value if it is finished; never waits for one being made.
  std::optional<Value> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end() || !is_ready(*found->second)) return std::nullopt;
    use(found->second);
    return found->second->value.get();
  }

  /// Returns the value; calls `make` if it does not exist. An exception of `make` reaches every waiting caller and is then
  /// forgotten, so that the next call tries again. `make` must not ask for its own key.
  Value get(const std::string& key, const std::function<Value()>& make) {
    std::promise<Value> promise;
    std::list<Entry> dropped;  // destroyed without the lock
    {
      std::unique_lock lock(mutex_);
      if (const auto found = index_.find(key); found != index_.end()) {
        use(found->second);
        const std::shared_future<Value> value = found->second->value;
        lock.unlock();
        return value.get();
      }
      entries_.push_front({key, promise.get_future().share()});
      index_.emplace(entries_.front().key, entries_.begin());
      drop_unused(dropped);
    }
    try {
      Value value = make();
      promise.set_value(value);
      return value;
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        const auto failed = index_.find(key);
        dropped.splice(dropped.end(), entries_, failed->second);
        index_.erase(failed);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  /// Forgets finished values for which `matches` returns true.
  void erase_if(const std::function<bool(const Value&)>& matches) {
    std::list<Entry> dropped;
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto here = entry++;
      if (is_ready(*here) && matches(here->value.get())) drop(here, dropped);
    }
  }

  /// Returns the number of values that are finished or being made.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::string key;
    std::shared_future<Value> value;
  };
  using Place = typename std::list<Entry>::iterator;

  // Values that failed are removed before their future becomes ready.
  static bool is_ready(const Entry& entry) {
    return entry.value.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void use(Place entry) { entries_.splice(entries_.begin(), entries_, entry); }
  void drop(Place entry, std::list<Entry>& dropped) {
    index_.erase(entry->key);
    dropped.splice(dropped.end(), entries_, entry);
  }
  void drop_unused(std::list<Entry>& dropped) {
    for (auto entry = entries_.end(); entries_.size() > capacity_ && entry != entries_.begin();) {
      const auto here = --entry;
      if (!is_ready(*here)) continue;
      ++entry;
      drop(here, dropped);
    }
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the most recently used first
  std::unordered_map<std::string_view, Place> index_;
};

}  // namespace tunesmith
