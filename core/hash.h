#pragma once
// One digest for templates, sources and cached rows.

#include <string>
#include <string_view>

namespace tunesmith {

/// 128-bit XXH3 as 32 lower-case hex digits. Not cryptographic: it guards against accidents, not attackers.
std::string hash_hex(std::string_view bytes);

}  // namespace tunesmith
