#pragma once
// Keys of one-shot calls of every operation: as many words as the problem type needs, and their hash.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tunesmith/dispatch.h"

namespace tunesmith {

/// The key of a lookup, as a call has it.
struct CallKeyView {
  std::span<const std::uint64_t> words;
  std::uint64_t hashed;

  std::uint64_t hash() const noexcept { return hashed; }
};

/// The key of an entry, as a DispatchTable stores it.
class CallKey {
 public:
  CallKey() = default;
  explicit CallKey(const CallKeyView& view) noexcept : hashed_(view.hashed), count_(view.words.size()) {
    std::ranges::copy(view.words, words_.begin());
  }
  std::uint64_t hash() const noexcept { return hashed_; }
  bool operator==(const CallKey&) const = default;
  bool operator==(const CallKeyView& view) const noexcept {
    if (hashed_ != view.hashed || count_ != view.words.size()) return false;
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < view.words.size(); ++i) difference |= words_[i] ^ view.words[i];
    return difference == 0;
  }

 private:
  std::uint64_t hashed_ = 0;
  std::size_t count_ = 0;
  std::array<std::uint64_t, max_key_words> words_{};
};

}  // namespace tunesmith
