#include "templates/config_values.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

[[noreturn]] void refuse(const Fields& fields, std::string_view field, const std::string& allowed) {
  const Value* value = fields.find(field);
  throw Error(ErrorCode::invalid_argument, "config ", field, " is ", value == nullptr ? "missing" : "'" + text(*value) + "'",
              "; allowed: ", allowed);
}

std::optional<int> integer_within(const Fields& fields, std::string_view field, int least, int most) {
  const Value* value = fields.find(field);
  const auto* integer = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  if (integer == nullptr || *integer < least || *integer > most) return std::nullopt;
  return static_cast<int>(*integer);
}

std::string range(int least, int most) { return std::to_string(least) + " to " + std::to_string(most); }

}  // namespace

std::string source_name(LoadHint hint) { return "tunesmith::LoadHint::" + std::string(enum_name(hint)); }
std::string source_name(StoreHint hint) { return "tunesmith::StoreHint::" + std::string(enum_name(hint)); }

std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string word_of(const Fields& fields, std::string_view field, const Words& allowed) {
  const Value* value = fields.find(field);
  const std::string word = value == nullptr ? "" : text(*value);
  if (std::ranges::find(allowed, std::string_view(word)) != allowed.end()) return word;
  refuse(fields, field, joined(allowed));
}

int integer_of(const Fields& fields, std::string_view field, int least, int most, int multiple_of) {
  if (const auto integer = integer_within(fields, field, least, most); integer && *integer % multiple_of == 0)
    return *integer;
  const std::string kind = multiple_of == 1 ? "" : "a multiple of " + std::to_string(multiple_of) + " from ";
  refuse(fields, field, kind + range(least, most));
}

int power_of_two_of(const Fields& fields, std::string_view field, int least, int most) {
  if (const auto integer = integer_within(fields, field, least, most);
      integer && std::has_single_bit(static_cast<unsigned>(*integer)))
    return *integer;
  refuse(fields, field, "a power of two from " + range(least, most));
}

void check_fields_of_variant(const Fields& fields, std::string_view variant, const Words& allowed) {
  for (const auto& item : fields)
    if (std::ranges::find(allowed, std::string_view(item.first)) == allowed.end())
      throw Error(ErrorCode::invalid_argument, "config field '", item.first, "' does not belong to variant ", variant,
                  "; allowed: ", joined(allowed));
}

}  // namespace tunesmith
