#pragma once
// Typed problem -> prepared executable, for calls that cannot afford a lock: a few nanoseconds for a hit. Open addressing;
// readers never wait and writers never move what a reader may be looking at.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace tunesmith {

/// Key: trivially copyable, comparable, with a noexcept hash() of 64 bits whose upper bits are well mixed. Values are not
/// owned: they must outlive the table. Entries are never removed. find() and insert() may run on any number of threads.
template <typename Key, typename Value>
class DispatchTable {
  static_assert(std::is_trivially_copyable_v<Key>);

 public:
  DispatchTable() : DispatchTable(64) {}
  /// `capacity`: slots to start with, a power of two from 4.
  explicit DispatchTable(std::size_t capacity) { publish(std::make_unique<Slots>(capacity)); }
  DispatchTable(const DispatchTable&) = delete;
  DispatchTable& operator=(const DispatchTable&) = delete;

  /// nullptr when absent. Sees every insert() that happened before it.
  /// `key`: a Key, or anything with hash() that compares with one.
  template <typename View = Key>
  const Value* find(const View& key) const noexcept {
    const Slots& slots = *current_.load(std::memory_order_acquire);
    // Each value is looked at once: an empty slot may be taken by another key right after.
    for (std::size_t i = slots.home(key);; i = slots.next(i)) {
      const Value* value = slots.slots[i].value.load(std::memory_order_acquire);
      if (value == nullptr || slots.slots[i].key == key) return value;
    }
  }

  /// Remembers the value; the first one stays when the key is already there.
  void insert(const Key& key, const Value& value) {
    const std::lock_guard lock(writing_);
    Slots* slots = all_.back().get();
    if (slots->place_of(key).value.load(std::memory_order_relaxed) != nullptr) return;
    if (2 * (size_ + 1) > slots->capacity()) slots = grow(*slots);
    put(slots->place_of(key), key, value);
    ++size_;
  }

  std::size_t size() const {
    const std::lock_guard lock(writing_);
    return size_;
  }

 private:
  // A key is written before its value is published and never changes after, so that a reader who sees the value may read it.
  struct alignas(64) Slot {
    std::atomic<const Value*> value{nullptr};
    Key key{};
  };

  struct Slots {
    explicit Slots(std::size_t capacity)
        : shift(64 - std::countr_zero(capacity)), mask(capacity - 1), slots(std::make_unique<Slot[]>(capacity)) {}

    std::size_t capacity() const noexcept { return mask + 1; }
    template <typename View>
    std::size_t home(const View& key) const noexcept {
      return key.hash() >> shift;
    }
    std::size_t next(std::size_t i) const noexcept { return (i + 1) & mask; }
    /// The key's slot, or the empty one where it would go; there always is one, the table is at most half full. For the
    /// writer.
    Slot& place_of(const Key& key) const noexcept {
      std::size_t i = home(key);
      while (slots[i].value.load(std::memory_order_relaxed) != nullptr && !(slots[i].key == key)) i = next(i);
      return slots[i];
    }

    int shift;
    std::size_t mask;
    std::unique_ptr<Slot[]> slots;
  };

  static void put(Slot& slot, const Key& key, const Value& value) noexcept {
    slot.key = key;
    slot.value.store(&value, std::memory_order_release);
  }

  Slots* publish(std::unique_ptr<Slots> slots) {
    all_.push_back(std::move(slots));
    current_.store(all_.back().get(), std::memory_order_release);
    return all_.back().get();
  }

  Slots* grow(const Slots& old) {
    auto larger = std::make_unique<Slots>(2 * old.capacity());
    for (std::size_t i = 0; i < old.capacity(); ++i)
      if (const Value* value = old.slots[i].value.load(std::memory_order_relaxed))
        put(larger->place_of(old.slots[i].key), old.slots[i].key, *value);
    return publish(std::move(larger));
  }

  std::atomic<const Slots*> current_{nullptr};
  mutable std::mutex writing_;
  std::size_t size_ = 0;
  // Outgrown tables stay, because a reader may still be in one; together they are smaller than the current one.
  std::vector<std::unique_ptr<Slots>> all_;
};

}  // namespace tunesmith
