#pragma once
// Pieces of an HTML page.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/cli/report/table.h"

namespace tunesmith::cli {

/// Escapes text for the content of an element or an attribute.
std::string escaped(std::string_view text);

/// Returns a table. Cells are text, not HTML; `marked` is the row to emphasize, or -1.
std::string html_table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows,
                       int marked = -1);

/// Returns names and values as a definition list; pairs with an empty value are omitted.
std::string html_listing(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace tunesmith::cli
