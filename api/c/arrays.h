#pragma once
// The arrays of a problem in the form of the C API. Internal.

#include <span>
#include <vector>

#include "tunesmith/array_info.h"
#include "tunesmith/c_api.h"

namespace tunesmith {

/// Arrays in launch order. The C structs refer to the names and extents that this object owns.
class ArrayTable {
 public:
  explicit ArrayTable(std::vector<ArrayInfo> infos);
  ArrayTable(const ArrayTable&) = delete;
  ArrayTable& operator=(const ArrayTable&) = delete;

  std::span<const tunesmith_array> arrays() const noexcept { return arrays_; }

 private:
  const std::vector<ArrayInfo> infos_;
  std::vector<tunesmith_array> arrays_;
};

/// Returns the caller's addresses. Throws Error(invalid_argument) for a null pointer instead of `count` addresses.
std::span<void* const> given_addresses(void* const* addresses, std::size_t count);

}  // namespace tunesmith
