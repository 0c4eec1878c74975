#pragma once
// What one-shot calls of all operations share: a look at addresses, arrays in an operation's order, and the launch of a
// plan that is looked up by value. Internal.

#include <array>
#include <cstdint>
#include <span>

#include "api/dispatch/plan_table.h"
#include "api/engine/parts.h"
#include "tunesmith/error.h"

namespace tunesmith {

/// The alignment that an address has, after a look at whether it can be the array's. Without elements nothing is touched,
/// and an address may be anything. (Fewer than none: prepare names it.)
inline std::int64_t alignment_of(const char* array, const void* address, DType dtype, std::int64_t elements) {
  const std::int64_t element = size_of(dtype);
  if (elements <= 0) return element;
  if (address == nullptr) throw Error(ErrorCode::invalid_argument, array, " is a null pointer; expected device memory");
  const auto alignment = alignment_class(address);
  if (alignment < element)
    throw Error(ErrorCode::invalid_argument, array, " is at ", address, "; ", name(dtype),
                " needs an address that is a multiple of ", element, " bytes");
  return alignment;
}

/// What one-shot calls take for promised: the address itself. Without elements nothing is touched.
inline std::int64_t promise_of(const void* address, DType dtype, std::int64_t elements) noexcept {
  return elements > 0 ? alignment_class(address) : size_of(dtype);
}

/// Whether an array is given that an option of the problem brings. What the problem asks for must be there: forgetting it
/// must not pass for an answer. `option`: the problem's field, where it is not called as the array.
inline bool is_given(const char* array, const void* address, bool asked, const char* option = nullptr) {
  if (option == nullptr) option = array;
  if (asked && address == nullptr) [[unlikely]]
    throw Error(ErrorCode::invalid_argument, array, " is a null pointer, but problem.", option,
                " is set; expected device memory, or problem.", option, " not set");
  return address != nullptr;
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

/// Finds the call's plan without lock or allocation, or prepares it, and enqueues it. A call has a `problem` that says what
/// its addresses told already, of which Key is made, check(), which throws in the caller's terms, and addresses().
template <typename Key, typename Call>
void launch_known(Engine& engine, DispatchTable<Key, Executable>& table, const Call& call, Stream stream) {
  const Key key(call.problem);
  const Executable* executable = table.find(key);
  if (executable == nullptr) [[unlikely]] {
    call.check();  // before any work
    executable = engine.prepare(call.problem, {}, stream).state().executable.get();
    table.insert(key, *executable);  // the plan table keeps it alive
  }
  executable->enqueue(call.addresses().span(), stream);
}

}  // namespace tunesmith
