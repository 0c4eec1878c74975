#pragma once
// The hash function of templates, sources and cached rows.

#include <string>
#include <string_view>

namespace tunesmith {

/// Returns the 128-bit XXH3 of `bytes` as 32 lower-case hex digits. Not cryptographic.
std::string hash_hex(std::string_view bytes);

}  // namespace tunesmith
