#pragma once
// Aligned tables, and the format of numbers in them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tunesmith::cli {

struct Column {
  std::string title;
  bool right = false;  ///< right-aligned, for numbers
};

/// Returns titles and rows, with two spaces between columns and none at the end of a line.
std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

/// Returns "name   value" lines; rows with an empty value are omitted.
std::string listing(const std::vector<std::pair<std::string, std::string>>& rows);

/// Formats a number with this many decimals.
std::string fixed(double value, int decimals);
/// "7.42 us", "153.1 us": two decimals below 100, one above.
std::string microseconds(double us);
/// "0 B", "1.5 KiB", "250.0 MiB".
std::string bytes_text(double bytes);
/// "3.2x".
std::string times(double factor);
/// "2026-11-22 19:08 UTC", from seconds since 1970.
std::string date_text(std::int64_t unix_s);

}  // namespace tunesmith::cli
