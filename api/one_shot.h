#pragma once
// What one-shot calls of all operations share: a look at addresses, and arrays in an operation's order. Internal.

#include <array>
#include <cstdint>
#include <span>

#include "api/dispatch_key.h"
#include "tunesmith/error.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// The alignment that an address has, after a look at whether it can be the array's. Without elements nothing is touched,
/// and an address may be anything. (Fewer than none: prepare names it.)
inline std::int64_t alignment_of(const char* array, const void* address, DType dtype, std::int64_t elements) {
  const std::int64_t element = size_of(dtype);
  if (elements <= 0) return element;
  if (address == nullptr) throw Error(ErrorCode::invalid_argument, array, " is a null pointer; expected device memory");
  const auto alignment = static_cast<std::int64_t>(alignment_class(address));
  if (alignment < element)
    throw Error(ErrorCode::invalid_argument, array, " is at ", address, "; ", name(dtype),
                " needs an address that is a multiple of ", element, " bytes");
  return alignment;
}

/// A call's arrays in the operation's order.
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
