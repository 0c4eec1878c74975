#pragma once
// The launches of a launcher, by the layouts of their tensors.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "api/python/src/dlpack.h"
#include "tunesmith/dispatch.h"

namespace tunesmith::python {

/// What a launch depends on: of each tensor its element type, device, alignment, shape and strides, and whether it starts
/// where the first one starts. Fixed size, on the stack.
class LayoutKey {
 public:
  static constexpr std::size_t most_words = 192;

  void add_absent() noexcept { words_[count_++] = 0; }
  /// Returns false if the key is full.
  bool add(const DlTensor& tensor, const void* address, bool same_as_first) noexcept {
    const auto rank = static_cast<std::size_t>(tensor.rank);
    if (count_ + 1 + 2 * rank > most_words) return false;
    words_[count_++] = std::uint64_t{1} | static_cast<std::uint64_t>(same_as_first) << 1 |
                       static_cast<std::uint64_t>(tensor.type.code) << 2 |
                       static_cast<std::uint64_t>(tensor.type.bits) << 8 |
                       static_cast<std::uint64_t>(alignment_class(address)) << 16 | static_cast<std::uint64_t>(rank) << 24 |
                       static_cast<std::uint64_t>(tensor.device.type & 0xff) << 32 |
                       static_cast<std::uint64_t>(tensor.device.id & 0xffff) << 40;
    for (std::size_t d = 0; d < rank; ++d) words_[count_++] = static_cast<std::uint64_t>(tensor.shape[d]);
    if (tensor.strides != nullptr)
      for (std::size_t d = 0; d < rank; ++d) words_[count_++] = static_cast<std::uint64_t>(tensor.strides[d]);
    return true;
  }

  std::span<const std::uint64_t> words() const noexcept { return {words_.data(), count_}; }
  std::uint64_t hash() const noexcept {
    std::uint64_t sum = count_;
    for (std::size_t i = 0; i < count_; ++i) sum = (sum ^ words_[i]) * 0x9e3779b97f4a7c15U + (sum >> 29);
    return sum ^ (sum >> 32);
  }

 private:
  std::array<std::uint64_t, most_words> words_;
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
