#pragma once
// Compression of values, by zlib.

#include <optional>
#include <string>
#include <string_view>

namespace tunesmith::fleet {

std::string compress(std::string_view bytes);
/// Returns nothing unless the result has exactly `size` bytes. Allocates no more than that.
std::optional<std::string> decompress(std::string_view bytes, std::size_t size);

}  // namespace tunesmith::fleet
