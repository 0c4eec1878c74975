#include "templates/row_program/language/programs.h"

#include <algorithm>
#include <vector>

#include "templates/row_program/language/parse.h"
#include "templates/row_program/passes/gradient.h"

namespace tunesmith {

// Defined by tunesmith_embed_files() in templates/CMakeLists.txt.
std::span<const std::pair<std::string_view, std::string_view>> embedded_programs();

namespace row_program {

std::span<const std::pair<std::string_view, std::string_view>> shipped_programs() {
  static const auto all = [] {
    const auto embedded = embedded_programs();
    std::vector<std::pair<std::string_view, std::string_view>> programs(embedded.begin(), embedded.end());
    for (auto& [name, text] : programs) name.remove_suffix(std::string_view(".row").size());
    std::ranges::sort(programs);
    return programs;
  }();
  return all;
}

std::string shipped_program(std::string_view name) {
  const auto text_of = [](std::string_view wanted) {
    const auto found = std::ranges::find(shipped_programs(), wanted, &std::pair<std::string_view, std::string_view>::first);
    return found == shipped_programs().end() ? std::string_view() : found->second;
  };
  if (const std::string_view text = text_of(name); !text.empty()) return std::string(text);
  constexpr std::string_view suffix = "_gradient";
  if (!name.ends_with(suffix)) return {};
  name.remove_suffix(suffix.size());
  const std::string_view text = text_of(name);
  return text.empty() ? std::string() : gradient_text(parse(text));
}

}  // namespace row_program
}  // namespace tunesmith
