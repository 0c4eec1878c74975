#pragma once
// Aligned text tables and the way numbers are written in them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tunesmith::cli {

struct Column {
  std::string title;
  bool right = false;  ///< numbers are easier to compare when their last digits stand below each other
};

/// Titles, then the rows; two spaces between columns, nothing behind the last cell of a line.
std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

/// "name   value" lines; rows with an empty value are left out.
std::string listing(const std::vector<std::pair<std::string, std::string>>& rows);

/// A number with that many decimals.
std::string fixed(double value, int decimals);
/// "7.42 us", "153.1 us": two decimals below 100, one above.
std::string microseconds(double us);
/// "0 B", "1.5 KiB", "250.0 MiB".
std::string bytes_text(double bytes);
/// "3.2x".
std::string times(double factor);

}  // namespace tunesmith::cli
