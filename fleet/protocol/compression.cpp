#include "fleet/protocol/compression.h"

#include <zlib.h>

#include <new>

namespace tunesmith::fleet {
namespace {

const Bytef* zlib_bytes(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }
Bytef* zlib_bytes(std::string& text) { return reinterpret_cast<Bytef*>(text.data()); }

}  // namespace

std::string compress(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  if (compress2(zlib_bytes(packed), &size, zlib_bytes(bytes), bytes.size(), 3) != Z_OK) throw std::bad_alloc();
  packed.resize(size);
  return packed;
}

std::optional<std::string> decompress(std::string_view bytes, std::size_t size) {
  // Deflate shrinks at most by a factor of 1032, so a short value that claims to be long is a lie.
  if (size / 1040 > bytes.size()) return std::nullopt;
  std::string plain(size, '\0');
  uLongf produced = size;
  uLong used = bytes.size();
  if (uncompress2(zlib_bytes(plain), &produced, zlib_bytes(bytes), &used) != Z_OK || produced != size ||
      used != bytes.size())
    return std::nullopt;
  return plain;
}

}  // namespace tunesmith::fleet
