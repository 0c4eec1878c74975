#pragma once
// The launches of a launcher, by the layouts of their tensors. Standard C++ alone: launcher.cpp in this folder is compiled
// where nothing else of Tunesmith's sources is.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tunesmith::python {

/// What a launch depends on: of each tensor its element type, device, alignment, shape and strides, and whether it starts
/// where the first one starts. Fixed size, on the stack.
class LayoutKey {
 public:
  static constexpr std::size_t max_words = 320;

  void add_absent() noexcept { words_[count_++] = 0; }
  /// Returns false if the key is full. `strides` are empty if the tensor is contiguous.
  bool add(std::uint16_t element_type, std::uint32_t device, const void* address, bool same_as_first,
           std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) noexcept {
    if (count_ + 1 + shape.size() + strides.size() > max_words) return false;
    const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) | 16U;
    words_[count_++] = std::uint64_t{1} | std::uint64_t{same_as_first} << 1 | std::uint64_t{strides.empty()} << 2 |
                       (bits & (~bits + 1)) << 3 | std::uint64_t{shape.size()} << 8 | std::uint64_t{element_type} << 16 |
                       std::uint64_t{device} << 32;
    for (const std::int64_t extent : shape) words_[count_++] = static_cast<std::uint64_t>(extent);
    for (const std::int64_t stride : strides) words_[count_++] = static_cast<std::uint64_t>(stride);
    return true;
  }

  std::span<const std::uint64_t> words() const noexcept { return {words_.data(), count_}; }
  std::uint64_t hash() const noexcept {
    std::uint64_t sum = count_;
    for (std::size_t i = 0; i < count_; ++i) sum = (sum ^ words_[i]) * 0x9e3779b97f4a7c15U + (sum >> 29);
    return sum ^ (sum >> 32);
  }

 private:
  std::array<std::uint64_t, max_words> words_;
  std::size_t count_ = 0;
};

/// An open-addressing table from a key to a position in the caller's list. Beyond `most` entries it starts anew.
class LaunchTable {
 public:
  static constexpr std::size_t most = 8192;

  std::optional<std::size_t> find(const LayoutKey& key, std::uint64_t hash) const noexcept {
    if (slots_.empty()) return std::nullopt;
    const std::span<const std::uint64_t> words = key.words();
    for (std::size_t at = hash & (slots_.size() - 1); slots_[at].used; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash && std::ranges::equal(slots_[at].key, words)) return slots_[at].position;
    return std::nullopt;
  }
  bool is_full() const noexcept { return count_ >= most; }
  void clear() {
    slots_.clear();
    count_ = 0;
  }
  void add(const LayoutKey& key, std::uint64_t hash, std::size_t position) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const std::span<const std::uint64_t> words = key.words();
    insert({true, hash, {words.begin(), words.end()}, position});
    ++count_;
  }

 private:
  struct Slot {
    bool used = false;
    std::uint64_t hash = 0;
    std::vector<std::uint64_t> key{};
    std::size_t position = 0;
  };

  void insert(Slot slot) {
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].used) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = std::move(slot);
  }
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(16, 2 * slots_.size()));
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.used) insert(std::move(slot));
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace tunesmith::python
