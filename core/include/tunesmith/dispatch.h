#pragma once
// The hot path of a call: what its addresses say about the problem, the problem as a key, and the addresses in launch order.
// Visitors of a description (tunesmith/describe.h) that inline to straight code: no allocation, no strings.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tunesmith/describe.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Throws Error(invalid_argument): an array is given that the problem does not have.
[[noreturn]] void refuse_array(std::string_view array);

/// Bytes that the address is a multiple of: a power of two, at most 16 because no access is wider.
inline std::int64_t alignment_class(const void* address) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 16U;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/// Sets what the addresses of a call say: alignments, in-place outputs, options that an array switches on.
class AddressReader {
 public:
  constexpr void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  constexpr void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  void array(const void* address, const ArrayFacts& facts) noexcept {
    bool empty = false;
    for (const Extent& extent : facts.shape) empty |= extent.value == 0;
    set(facts.in_place, address != nullptr && address == facts.shares && !empty);
    const bool absent = !facts.present && address == nullptr;
    set(facts.alignment, absent ? 16 : empty ? size_of(facts.dtype) : alignment_class(address));
    if (facts.enabled_by != nullptr && address != nullptr) set(facts.enabled_by, true);
  }

 private:
  /// Descriptions take a problem as it is, const or not; here it is not.
  template <typename Member>
  static void set(const Member* member, Member value) noexcept {
    if (member != nullptr) *const_cast<Member*>(member) = value;
  }
};

/// Places of a key's parts: whole words for numbers, bits of shared words for the rest.
class KeyLayout {
 public:
  struct Bits {
    std::size_t word;
    int shift;
  };
  constexpr std::size_t whole() noexcept { return words_++; }
  constexpr Bits bits(int count) noexcept {
    if (shift_ + count > 64) {
      shared_ = words_++;
      shift_ = 0;
    }
    const Bits place{shared_, shift_};
    shift_ += count;
    return place;
  }
  constexpr std::size_t words() const noexcept { return words_; }

 private:
  std::size_t words_ = 1;  // the operation's name
  std::size_t shared_ = 0;
  int shift_ = 64;
};

/// Writes the fields of a problem into words. `count` 0: only finds out how many there are.
template <std::size_t count>
class KeyWriter {
 public:
  constexpr explicit KeyWriter(std::string_view op) noexcept {
    if constexpr (count > 0) words_[0] = reinterpret_cast<std::uintptr_t>(op.data());  // a literal: its address will do
  }

  template <typename Member>
  constexpr void field(std::string_view, const Member& member, const FieldFacts& facts) noexcept {
    put(member, facts);
  }
  template <typename Member>
  constexpr void option(std::string_view, const Member& member, const FieldFacts& facts) noexcept {
    put(member, facts);
  }
  constexpr void array(const void*, const ArrayFacts&) noexcept {}

  constexpr std::size_t size() const noexcept { return layout_.words(); }
  std::span<const std::uint64_t> words() const noexcept { return words_; }
  /// The problem holds text, which no key of fixed length has room for.
  constexpr bool has_text() const noexcept { return has_text_; }

  /// The multiplications do not depend on each other, so that they overlap. The last product carries every bit into the
  /// upper ones.
  std::uint64_t hash() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += words_[i] * factor(i);
    return (sum ^ (sum >> 32)) * factor(0);
  }

 private:
  static constexpr std::uint64_t factor(std::size_t i) noexcept {
    std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15U;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    return (bits ^ (bits >> 27)) | 1;
  }

  constexpr void put_whole(std::uint64_t value) noexcept {
    const std::size_t word = layout_.whole();
    if constexpr (count > 0) words_[word] = value;
  }
  constexpr void put_bits(std::uint64_t value, int bits) noexcept {
    const KeyLayout::Bits place = layout_.bits(bits);
    if constexpr (count > 0) words_[place.word] |= (value & ((std::uint64_t{1} << bits) - 1)) << place.shift;
  }

  template <typename Member>
  constexpr void put(const Member& member, const FieldFacts& facts) noexcept {
    if constexpr (std::is_same_v<Member, bool>) {
      put_bits(member ? 1 : 0, 1);
    } else if constexpr (std::is_enum_v<Member>) {
      put_bits(static_cast<std::uint64_t>(member), 8);
    } else if constexpr (std::is_integral_v<Member>) {
      if (facts.cap != 0)  // an alignment, as AddressReader sets it
        put_bits(static_cast<std::uint64_t>(member), 5);
      else
        put_whole(static_cast<std::uint64_t>(member));
    } else if constexpr (std::is_same_v<Member, double>) {
      put_whole(std::bit_cast<std::uint64_t>(member));
    } else if constexpr (requires { member.has_value(); }) {
      using Type = typename Member::value_type;
      // A default that follows another field and the same value given are one problem.
      Type fallback{};
      if constexpr (std::is_same_v<Type, double>)
        fallback = facts.follows.real;
      else
        fallback = static_cast<Type>(facts.follows.integer);
      if (facts.follows.text.empty()) put_bits(member.has_value() ? 1 : 0, 1);
      put(member.value_or(fallback), facts);
    } else {
      has_text_ = has_text_ || !member.empty();
    }
  }

  std::array<std::uint64_t, count> words_{};
  KeyLayout layout_;
  bool has_text_ = false;
};

/// Words of a problem type's key. Which fields a problem type has must not depend on its values.
template <typename Problem>
consteval std::size_t key_words() {
  Problem problem{};  // not const: GCC 12 rejects constant strings in constant expressions
  const typename Problem::Arrays none{};
  KeyWriter<0> counter{std::string_view()};
  describe(std::as_const(problem), none, counter);
  return counter.size();
}

/// Addresses in launch order.
class AddressList {
 public:
  static constexpr std::size_t most = 32;

  constexpr void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  constexpr void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  void array(const void* address, const ArrayFacts& facts) {
    if (facts.present)
      addresses_[count_++] = const_cast<void*>(address);
    else if (address != nullptr) [[unlikely]]
      refuse_array(facts.name);
  }
  std::span<void* const> span() const noexcept { return {addresses_.data(), count_}; }

 private:
  std::array<void*, most> addresses_;
  std::size_t count_ = 0;
};

/// The problem that a call with these addresses asks for. `adopt(Problem&, const Arrays&)`, where a problem type has it,
/// does what AddressReader cannot.
template <typename Problem>
Problem with_addresses(const Problem& asked, const typename Problem::Arrays& arrays) {
  Problem problem = asked;
  AddressReader reader;
  describe(problem, arrays, reader);
  if constexpr (requires { adopt(problem, arrays); }) adopt(problem, arrays);
  return problem;
}

}  // namespace tunesmith
