#include "api/cli/report/table.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <sstream>

namespace tunesmith::cli {

std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(columns[c].title.size());
    for (const auto& row : rows) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  const auto add_line = [&](const auto& cell) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string padding(widths[c] - cell(c).size(), ' ');
      line += (c == 0 ? "" : "  ") + (columns[c].right ? padding + cell(c) : cell(c) + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t c) -> const std::string& { return columns[c].title; });
  for (const auto& row : rows) add_line([&](std::size_t c) -> const std::string& { return row[c]; });
  return text;
}

std::string listing(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows)
    if (!value.empty()) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : rows)
    if (!value.empty()) text += name + std::string(width - name.size() + 2, ' ') + value + "\n";
  return text;
}

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  return text.str();
}

std::string microseconds(double us) { return fixed(us, us < 100 ? 2 : 1) + " us"; }

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return fixed(bytes, unit == 0 ? 0 : 1) + " " + units[unit];
}

std::string date_text(std::int64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc)};
}

std::string times(double factor) { return fixed(factor, 2) + "x"; }

}  // namespace tunesmith::cli
