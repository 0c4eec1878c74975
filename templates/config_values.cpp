#include "templates/config_values.h"

#include <algorithm>
#include <bit>

#include "tunesmith/error.h"

namespace tunesmith {

const Words& load_words() {
  static const Words words{"plain", "no_allocate", "streaming", "evict_first", "evict_last"};
  return words;
}

const Words& store_words() {
  static const Words words{"plain", "streaming", "evict_first"};
  return words;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string word_of(const Fields& fields, std::string_view field, const Words& allowed) {
  const Value* value = fields.find(field);
  const std::string word = value == nullptr ? "" : text(*value);
  if (std::ranges::find(allowed, std::string_view(word)) != allowed.end()) return word;
  throw Error(ErrorCode::invalid_argument, "config ", field, " is ", value == nullptr ? "missing" : "'" + word + "'",
              "; allowed: ", joined(allowed));
}

int integer_of(const Fields& fields, std::string_view field, int least, int most, bool power_of_two) {
  const Value* value = fields.find(field);
  const auto* integer = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  if (integer != nullptr && *integer >= least && *integer <= most &&
      (!power_of_two || std::has_single_bit(static_cast<std::uint64_t>(*integer))))
    return static_cast<int>(*integer);
  throw Error(ErrorCode::invalid_argument, "config ", field, " is ", value == nullptr ? "missing" : "'" + text(*value) + "'",
              "; allowed: ", power_of_two ? "a power of two from " : "", least, " to ", most);
}

}  // namespace tunesmith
