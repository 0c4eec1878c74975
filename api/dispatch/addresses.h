#pragma once
// A call's arrays in the operation's order. Internal.

#include <array>
#include <cstddef>
#include <span>

namespace tunesmith {

template <std::size_t most>
class Addresses {
 public:
  template <typename... Pointers>
  explicit Addresses(Pointers... pointers) noexcept
      : addresses_{const_cast<void*>(static_cast<const void*>(pointers))...}, count_(sizeof...(pointers)) {}

  void add(const void* address) noexcept { addresses_[count_++] = const_cast<void*>(address); }
  void add_if(bool condition, const void* address) noexcept {
    if (condition) add(address);
  }
  std::span<void* const> span() const noexcept { return {addresses_.data(), count_}; }

 private:
  std::array<void*, most> addresses_;
  std::size_t count_;
};

}  // namespace tunesmith
