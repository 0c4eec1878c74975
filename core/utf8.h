#pragma once
// Text that may hold any bytes, made fit for terminals, JSON and Python.

#include <cstddef>
#include <string>
#include <string_view>

namespace tunesmith {

/// Byte-order mark, with which some editors begin files.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
/// Returns the text after a byte-order mark, if it begins with one.
constexpr std::string_view without_mark(std::string_view text) noexcept {
  return text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text;
}

/// Returns the bytes of the UTF-8 character that `text` starts with; 0 if it is not empty and starts with none.
std::size_t utf8_length(std::string_view text) noexcept;

/// Returns the text with '?' in place of control characters, such as a terminal's escape sequences, but for tabs and line
/// ends, and U+FFFD in place of bytes that are not UTF-8. Messages quote files, which may contain anything.
std::string printable(std::string_view text);

}  // namespace tunesmith
