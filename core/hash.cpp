#include "core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace tunesmith {

std::string hash_hex(std::string_view bytes) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes.data(), bytes.size()));
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * sizeof digest.digest);
  for (const unsigned char byte : digest.digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace tunesmith
