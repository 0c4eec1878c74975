#pragma once
// Values as bytes: integers in little-endian order, texts with their length in front.

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tunesmith::fleet {

class ByteWriter {
 public:
  ByteWriter& add(std::uint64_t value, int size = 8) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  ByteWriter& add(double value) { return add(std::bit_cast<std::uint64_t>(value)); }
  ByteWriter& add(std::string_view text) {
    add(text.size(), 4);
    bytes_ += text;
    return *this;
  }
  ByteWriter& add_raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a ByteWriter wrote. Once a read goes beyond the end, or beyond its limit, it fails and so do all later ones.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t integer(int size = 8) {
    const std::string_view bytes = raw(static_cast<std::size_t>(size));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }
  double real() { return std::bit_cast<double>(integer()); }
  std::string_view text(std::size_t most) {
    const std::uint64_t size = integer(4);
    if (size > most) failed_ = true;
    return raw(size);
  }
  std::string_view raw(std::size_t size) {
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  bool failed() const { return failed_; }
  /// Reports whether everything was read, and nothing failed.
  bool is_done() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace tunesmith::fleet
