#pragma once
// What every table shares: a checksum per row, and how a map is kept in one text column.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tunesmith {

/// Checksum over a row's values in a fixed order. Lengths are part of it, so no two rows run together.
class RowDigest {
 public:
  /// `table` names the row's kind and layout; change it when the meaning of a column changes.
  explicit RowDigest(std::string_view table) { add(table); }
  RowDigest& add(std::string_view bytes);
  RowDigest& add(std::int64_t value);
  /// Equal for values that SQLite does not tell apart: all NaNs, and both zeros.
  RowDigest& add(double value);
  std::string hex() const;

 private:
  std::string content_;
};

/// What a lookup found. A damaged row is one whose checksum does not match: it counts as absent.
template <typename Row>
struct Lookup {
  std::optional<Row> row;
  bool damaged = false;
};

/// "name=value" lines; '\', '=' in names and line breaks are escaped with '\'.
std::string to_lines(const std::map<std::string, std::string>& items);
/// Inverse of to_lines(). Reads anything: the checksum has told before whether the text is what was written.
std::map<std::string, std::string> from_lines(std::string_view text);

}  // namespace tunesmith
