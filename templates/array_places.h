#pragma once
// Where the structs of kernel parameters hold the addresses of arrays. Internal to templates/.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tunesmith/error.h"

namespace tunesmith {

/// The offset, in the kernel's parameters, of the address of an array.
struct ArrayPlace {
  std::string_view array;
  std::size_t offset;
};

/// Returns the offset of `array`. Throws Error(unsupported) for an array that is not among `places`: an operation describes
/// one that its parameters do not have.
inline std::uint32_t offset_of(std::string_view array, std::span<const ArrayPlace> places) {
  const auto found = std::ranges::find(places, array, &ArrayPlace::array);
  if (found == places.end())
    throw Error(ErrorCode::unsupported, "the kernel's parameters have no address for the array '", array, "'");
  return static_cast<std::uint32_t>(found->offset);
}

}  // namespace tunesmith
