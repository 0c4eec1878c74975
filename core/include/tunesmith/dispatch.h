#pragma once
// The hot path of a call: its key and its addresses, in one pass over the description (tunesmith/describe.h) that inlines to
// straight code without allocations or strings. The first call also reads what its addresses mean for the problem.

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
#include <vector>

#include "tunesmith/describe.h"
#include "tunesmith/types.h"

// Inlines everything that a function calls. GCC ignores the attribute in clones of the function and where it is inlined.
#if defined(__clang__)
#define TUNESMITH_FLATTEN [[gnu::flatten, gnu::noinline]]
#else
#define TUNESMITH_FLATTEN [[gnu::flatten, gnu::noinline, gnu::noclone]]
#endif

namespace tunesmith {

/// Throws Error(invalid_argument) for an address that is null or not aligned to an element, and for one that is given
/// although the problem does not have the array.
void check_address(const void* address, const ArrayFacts& array);

/// Returns the alignment of an address: a power of two, at most 16 because no access is wider.
inline std::int64_t alignment_class(const void* address) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 16U;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/// Sets the fields that addresses determine: alignments, in-place outputs, options enabled by an array.
class AddressReader {
 public:
  constexpr void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  constexpr void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  void array(const void* address, const ArrayFacts& facts) noexcept {
    const bool empty = std::ranges::any_of(facts.shape, [](const Extent& extent) { return extent.value == 0; });
    set(facts.in_place, address != nullptr && address == facts.shares && !empty);
    const bool absent = !facts.present && address == nullptr;
    set(facts.alignment, absent ? 16 : empty ? size_of(facts.dtype) : alignment_class(address));
    if (facts.enabled_by != nullptr && address != nullptr) set(facts.enabled_by, true);
  }

 private:
  /// Descriptions take a const or mutable problem; this visitor requires a mutable one.
  template <typename Member>
  static void set(const Member* member, Member value) noexcept {
    if (member != nullptr) *const_cast<Member*>(member) = value;
  }
};

/// Positions of a key's parts: whole words for numbers, bits of shared words for the rest.
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
  std::size_t words_ = 1;  // the first word is the operation's name
  std::size_t shared_ = 0;
  int shift_ = 64;
};

/// Reads a call in one pass: its key and its addresses. The key contains the fields as given, and what with_addresses()
/// reads from addresses: which are null, their alignment classes, and which outputs are in place. Alignment fields are left
/// out, because the addresses replace them. So calls with equal keys have equal plans, but a plan may have several keys.
/// `count`: key_words(); 0 only counts.
template <std::size_t count>
class CallReader {
 public:
  static constexpr std::size_t max_arrays = 24;

  constexpr explicit CallReader(std::string_view op) noexcept {
    if constexpr (count > 0)
      words_[0] = reinterpret_cast<std::uintptr_t>(op.data());  // a literal: its address identifies it
  }

  template <typename Member>
  constexpr void field(std::string_view, const Member& member, const FieldFacts& facts) noexcept {
    put(member, facts);
  }
  template <typename Member>
  constexpr void option(std::string_view, const Member& member, const FieldFacts& facts) noexcept {
    put(member, facts);
  }
  constexpr void array(const void* address, const ArrayFacts& facts) noexcept {
    std::uint64_t bits = address == nullptr ? 1 : 0;
    if (address != nullptr && address == facts.shares) bits |= 2;
    if (facts.alignment != nullptr) {
      if constexpr (count > 0) bits |= static_cast<std::uint64_t>(alignment_class(address)) << 2;
      put_bits(bits, 7);
    } else {
      put_bits(bits, 2);
    }
    if constexpr (count > 0) addresses_[arrays_++] = const_cast<void*>(address);
  }

  constexpr void user_array(const void* address) noexcept { put_bits(address == nullptr ? 1 : 0, 1); }

  constexpr std::size_t size() const noexcept { return layout_.words(); }
  std::span<const std::uint64_t> words() const noexcept { return words_; }
  /// The addresses of all arrays in the order of the description, null ones included.
  std::span<void* const> addresses() const noexcept { return {addresses_.data(), arrays_}; }
  /// The problem contains text, for which a key of fixed length has no room.
  constexpr bool has_text() const noexcept { return has_text_; }

  /// The multiplications are independent, so that they overlap. The last product carries every bit into the upper ones.
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
      if (facts.cap == 0) put_whole(static_cast<std::uint64_t>(member));  // else an alignment
    } else if constexpr (std::is_same_v<Member, double>) {
      put_whole(std::bit_cast<std::uint64_t>(member));
    } else if constexpr (requires { member.has_value(); }) {
      put_bits(member.has_value() ? 1 : 0, 1);
      put(member.has_value() ? *member : typename Member::value_type{}, facts);
    } else {
      has_text_ = has_text_ || !member.empty();
    }
  }

  std::array<std::uint64_t, count> words_{};
  std::array<void*, max_arrays> addresses_;
  std::size_t arrays_ = 0;
  KeyLayout layout_;
  bool has_text_ = false;
};

/// Most words of any problem type's key.
inline constexpr std::size_t max_key_words = 56;

/// Returns the number of words of a problem type's key. Which fields a problem type has must not depend on its values.
template <typename Problem>
consteval std::size_t key_words() {
#if defined(__clang__) && defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE < 13
  return max_key_words;  // clang rejects the strings of libstdc++ 12 in constant expressions
#else
  Problem problem{};  // not const: GCC 12 rejects constant strings in constant expressions
  const typename Problem::Arrays none{};
  CallReader<0> counter{std::string_view()};
  describe(std::as_const(problem), none, counter);
  return counter.size();
#endif
}

/// Most arrays of any problem type, and thus of a call. Includes arrays that only a text can declare.
inline constexpr std::size_t max_call_arrays = 40;

/// Counts the arrays of a description. `of_texts`: arrays that only a text can declare.
struct ArrayCounter {
  std::size_t described = 0, of_texts = 0;

  constexpr void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  constexpr void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  constexpr void array(const void*, const ArrayFacts&) noexcept { ++described; }
  constexpr void user_array(const void*) noexcept { ++of_texts; }
};

/// Returns the numbers of arrays of a problem type; none if the compiler cannot count them.
template <typename Problem>
consteval ArrayCounter count_arrays() {
  ArrayCounter counter;
#if !(defined(__clang__) && defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE < 13)  // see key_words()
  Problem problem{};
  const typename Problem::Arrays none{};
  describe(std::as_const(problem), none, counter);
#endif
  return counter;
}

/// Selects a problem's arrays, in launch order, and checks their addresses as check_address() does.
class AddressList {
 public:
  /// selected() has the first arrays of a description. Only a problem with text, which has no key, has more.
  static constexpr std::size_t max_selected = 32;

  constexpr void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  constexpr void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  void array(const void* address, const ArrayFacts& facts) {
    check_address(address, facts);
    if (facts.present) {
      if (visited_ < max_selected) selected_ |= std::uint32_t{1} << visited_;
      addresses_.push_back(const_cast<void*>(address));
    }
    ++visited_;
  }
  std::span<void* const> span() const noexcept { return addresses_; }
  /// Bit i: the i-th array of the description is in the list.
  std::uint32_t selected() const noexcept { return selected_; }

 private:
  std::vector<void*> addresses_;
  unsigned visited_ = 0;
  std::uint32_t selected_ = 0;
};

/// Returns the problem that a call with these addresses asks for. `adopt(Problem&, const Arrays&)`, where a problem type has
/// it, does what AddressReader cannot; it may depend only on which addresses are null and which equal their
/// ArrayFacts::shares, because these are part of a call's key.
template <typename Problem>
Problem with_addresses(const Problem& asked, const typename Problem::Arrays& arrays) {
  Problem problem = asked;
  AddressReader reader;
  describe(problem, arrays, reader);
  if constexpr (requires { adopt(problem, arrays); }) adopt(problem, arrays);
  return problem;
}

}  // namespace tunesmith
