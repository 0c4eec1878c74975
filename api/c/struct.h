#pragma once
// Structs of the C API that tell their size, of this or an older or newer header. Internal.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tunesmith/error.h"
#include "tunesmith/version.h"

namespace tunesmith {

/// The fields the caller's header knows; the rest zero. Fields of a newer header are fine as long as they are not used.
/// `first_version`: bytes of the struct in the first header that had it. `name` and `type` as the caller writes them. Throws
/// Error(invalid_argument).
template <typename Struct>
Struct known_fields(const Struct& given, std::size_t first_version, const char* name, const char* type) {
  std::size_t size = 0;
  std::memcpy(&size, &given, sizeof size);
  if (size < first_version)
    throw Error(ErrorCode::invalid_argument, name, ".struct_size is ", size, "; expected sizeof(", type, "), ",
                sizeof(Struct));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  // A size nobody's header will ever have is an uninitialized struct: do not read beyond it.
  constexpr std::size_t absurd = 4096;
  if (size > absurd ||
      std::any_of(bytes + std::min(size, sizeof given), bytes + size, [](unsigned char byte) { return byte != 0; }))
    throw Error(ErrorCode::invalid_argument, name, ".struct_size is ", size, ", but this library (", TUNESMITH_VERSION,
                ") knows only the first ", sizeof(Struct), " bytes and the others are not zero");
  Struct known{};
  std::memcpy(&known, &given, std::min(size, sizeof known));
  return known;
}

}  // namespace tunesmith
