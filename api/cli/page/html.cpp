#include "api/cli/page/html.h"

namespace tunesmith::cli {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  return result;
}

std::string html_table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows, int marked) {
  const auto cell = [&](const char* tag, std::size_t column, const std::string& text) {
    return std::string("<") + tag + (columns[column].right ? " class=\"number\">" : ">") + escaped(text) + "</" + tag + ">";
  };
  std::string html = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (std::size_t c = 0; c < columns.size(); ++c) html += cell("th", c, columns[c].title);
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    html += static_cast<int>(r) == marked ? "<tr class=\"marked\">" : "<tr>";
    for (std::size_t c = 0; c < columns.size(); ++c) html += cell("td", c, rows[r][c]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string html_listing(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html = "<dl>\n";
  for (const auto& [name, value] : rows)
    if (!value.empty()) html += "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>\n";
  return html + "</dl>\n";
}

}  // namespace tunesmith::cli
