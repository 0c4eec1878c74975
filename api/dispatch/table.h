#pragma once
// Key of a call -> its plan, for calls that cannot afford a lock: a few nanoseconds for a hit. Open addressing. Readers
// never wait, and writers never change memory that a reader may be using. Internal.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "api/dispatch/readers.h"

namespace tunesmith {

/// Key: trivially copyable, comparable, with a noexcept hash() of 64 bits whose upper bits are well mixed. Owns its values.
/// At most `capacity` entries; beyond it, drops the least recently found ones, an eighth at a time. All functions may run on
/// any number of threads.
template <typename Key, typename Value>
class DispatchTable {
  static_assert(std::is_trivially_copyable_v<Key>);

 public:
  explicit DispatchTable(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 8)) {
    current_.store(new Slots(16), std::memory_order_seq_cst);
  }
  ~DispatchTable() {
    const Slots* const slots = current_.load(std::memory_order_relaxed);
    for (const auto& slot : slots->slots) delete slot.load(std::memory_order_relaxed);
    delete slots;
  }
  DispatchTable(const DispatchTable&) = delete;
  DispatchTable& operator=(const DispatchTable&) = delete;

  /// Access for one thread. The result of find() is valid while this object lives.
  class Reading {
   public:
    explicit Reading(const DispatchTable& table) noexcept : table_(table), reading_(table.readers_.enter()) {}

    /// nullptr if the key is absent. Sees every insert() that happened before the construction. `key`: a Key, or anything
    /// with hash() that compares with one.
    template <typename View = Key>
    const Value* find(const View& key) const noexcept {
      const Slots& slots = *table_.current_.load(std::memory_order_seq_cst);
      for (std::size_t i = slots.home(key);; i = slots.next(i)) {
        const Entry* const entry = slots.slots[i].load(std::memory_order_acquire);
        if (entry == nullptr) return nullptr;
        if (!(entry->key == key)) continue;
        const std::uint64_t now = table_.time_.load(std::memory_order_relaxed);
        if (entry->last_used.load(std::memory_order_relaxed) != now) entry->last_used.store(now, std::memory_order_relaxed);
        return &entry->value;
      }
    }

   private:
    const DispatchTable& table_;
    const Readers::Reading reading_;
  };

  Reading read() const noexcept { return Reading(*this); }

  /// Remembers the value; the first one stays if the key is already there.
  void insert(const Key& key, Value value) {
    const std::lock_guard lock(writing_);
    release_replaced();
    const Slots* slots = current_.load(std::memory_order_relaxed);
    if (slots->place_of(key).load(std::memory_order_relaxed) != nullptr) return;
    if (size_ >= capacity_) slots = drop_unused(*slots);
    if (2 * (size_ + 1) > slots->capacity())
      slots = rebuild(*slots, 2 * slots->capacity(), [](const Entry&) { return true; });
    const std::uint64_t now = time_.fetch_add(1, std::memory_order_relaxed) + 1;
    slots->place_of(key).store(new Entry(key, std::move(value), now), std::memory_order_release);
    ++size_;
  }

  /// Removes the entries for which `matches` returns true.
  void erase_if(const std::function<bool(const Value&)>& matches) {
    const std::lock_guard lock(writing_);
    release_replaced();
    const Slots& slots = *current_.load(std::memory_order_relaxed);
    rebuild(slots, slots.capacity(), [&](const Entry& entry) { return !matches(entry.value); });
  }

  std::size_t size() const {
    const std::lock_guard lock(writing_);
    return size_;
  }
  /// Entries that were removed while a thread was reading, and are not yet destroyed.
  std::size_t unreleased() const {
    const std::lock_guard lock(writing_);
    std::size_t entries = 0;
    for (const Replaced& replaced : replaced_) entries += replaced.entries.size();
    return entries;
  }

 private:
  struct Entry {
    Entry(const Key& its_key, Value&& its_value, std::uint64_t now)
        : key(its_key), value(std::move(its_value)), last_used(now) {}

    const Key key;
    const Value value;
    mutable std::atomic<std::uint64_t> last_used;
  };
  using Slot = std::atomic<const Entry*>;

  struct Slots {
    explicit Slots(std::size_t capacity) : shift(64 - std::countr_zero(capacity)), mask(capacity - 1), slots(capacity) {}

    std::size_t capacity() const noexcept { return mask + 1; }
    template <typename View>
    std::size_t home(const View& key) const noexcept {
      return key.hash() >> shift;
    }
    std::size_t next(std::size_t i) const noexcept { return (i + 1) & mask; }
    /// Returns the key's slot, or the empty one where it would go. There always is one: the table is at most half full. For
    /// writers.
    Slot& place_of(const Key& key) const noexcept {
      std::size_t i = home(key);
      while (true) {
        const Entry* const entry = slots[i].load(std::memory_order_relaxed);
        if (entry == nullptr || entry->key == key) return slots[i];
        i = next(i);
      }
    }

    int shift;
    std::size_t mask;
    mutable std::vector<Slot> slots;
  };

  /// Memory that readers may still be using.
  struct Replaced {
    std::unique_ptr<const Slots> slots;
    std::vector<std::unique_ptr<const Entry>> entries;
    Readers::Grace grace;
  };

  const Slots* drop_unused(const Slots& slots) {
    std::vector<std::uint64_t> times;
    for (const Slot& slot : slots.slots)
      if (const Entry* const entry = slot.load(std::memory_order_relaxed))
        times.push_back(entry->last_used.load(std::memory_order_relaxed));
    const std::size_t dropped = times.size() / 8;
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(dropped));
    // Readers refresh times meanwhile; entries used at the limit are dropped until there is room for one.
    const std::uint64_t limit = times[dropped];
    std::size_t left = dropped + 1;
    return rebuild(slots, slots.capacity(), [&](const Entry& entry) {
      if (left == 0 || entry.last_used.load(std::memory_order_relaxed) > limit) return true;
      --left;
      return false;
    });
  }

  /// Publishes a table of the entries that `keeps` accepts.
  const Slots* rebuild(const Slots& old, std::size_t capacity, const std::function<bool(const Entry&)>& keeps) {
    auto larger = std::make_unique<Slots>(capacity);
    Replaced replaced;
    for (const Slot& slot : old.slots) {
      const Entry* const entry = slot.load(std::memory_order_relaxed);
      if (entry == nullptr) continue;
      if (keeps(*entry))
        larger->place_of(entry->key).store(entry, std::memory_order_relaxed);
      else
        replaced.entries.emplace_back(entry);
    }
    size_ -= replaced.entries.size();
    const Slots* const published = larger.release();
    replaced.slots.reset(current_.exchange(published, std::memory_order_seq_cst));
    replaced_.push_back(std::move(replaced));
    release_replaced();
    return published;
  }

  void release_replaced() {
    std::erase_if(replaced_, [&](Replaced& replaced) { return replaced.grace.is_over(readers_); });
  }

  std::atomic<const Slots*> current_{nullptr};
  std::atomic<std::uint64_t> time_{0};  // insertions so far
  Readers readers_;
  mutable std::mutex writing_;
  const std::size_t capacity_;
  std::size_t size_ = 0;
  std::vector<Replaced> replaced_;
};

}  // namespace tunesmith
