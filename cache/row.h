#pragma once
// Parts that all tables share: the checksum of a row, and the encoding of a map in one text column.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tunesmith {

/// Computes the checksum of a row's values in a fixed order. It includes their lengths, so that different rows never
/// concatenate to the same bytes.
class RowDigest {
 public:
  /// `table` names the kind and layout of the row; change it if the meaning of a column changes.
  explicit RowDigest(std::string_view table) { add(table); }
  RowDigest& add(std::string_view bytes);
  RowDigest& add(std::int64_t value);
  /// Adds a number. All NaNs are equal, and so are both zeros, as in SQLite.
  RowDigest& add(double value);
  std::string hex() const;

 private:
  std::string content_;
};

/// The result of a lookup. A row whose checksum does not match is damaged and treated as absent.
template <typename Row>
struct Lookup {
  std::optional<Row> row;
  bool damaged = false;
};

/// Encodes a map as "name=value" lines; '\', '=' in names and line breaks are escaped with '\'.
std::string to_lines(const std::map<std::string, std::string>& items);
/// Inverse of to_lines(). Accepts any text, because the checksum was verified before.
std::map<std::string, std::string> from_lines(std::string_view text);

}  // namespace tunesmith
