#include "tunesmith/fields.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/hash.h"
#include "tunesmith/error.h"

namespace tunesmith {

std::string text(const Value& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  std::array<char, 64> buffer{};
  const auto result = std::holds_alternative<std::int64_t>(value)
                          ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::get<std::int64_t>(value))
                          : std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::get<double>(value));
  return {buffer.data(), result.ptr};
}

Value parse_value(std::string_view text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  std::int64_t integer = 0;
  if (const auto result = std::from_chars(begin, end, integer); result.ec == std::errc() && result.ptr == end)
    return integer;
  double real = 0;
  if (const auto result = std::from_chars(begin, end, real); result.ec == std::errc() && result.ptr == end) return real;
  return std::string(text);
}

void Fields::set(std::string_view name, Value value) {
  for (auto& item : items_) {
    if (item.first != name) continue;
    item.second = std::move(value);
    return;
  }
  items_.emplace_back(std::string(name), std::move(value));
}

const Value* Fields::find(std::string_view name) const noexcept {
  for (const auto& item : items_)
    if (item.first == name) return &item.second;
  return nullptr;
}

namespace {

const Value& require(const Fields& fields, std::string_view name) {
  if (const Value* value = fields.find(name)) return *value;
  throw Error(ErrorCode::invalid_argument, name, " is missing");
}

}  // namespace

std::int64_t Fields::integer(std::string_view name) const {
  const Value& value = require(*this, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  throw Error(ErrorCode::invalid_argument, name, " is '", tunesmith::text(value), "'; expected an integer");
}

double Fields::real(std::string_view name) const {
  const Value& value = require(*this, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  throw Error(ErrorCode::invalid_argument, name, " is '", tunesmith::text(value), "'; expected a number");
}

const std::string& Fields::string(std::string_view name) const {
  const Value& value = require(*this, name);
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  throw Error(ErrorCode::invalid_argument, name, " is ", tunesmith::text(value), "; expected a string");
}

namespace {

bool needs_escape(char c) { return c == ',' || c == '%' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

void append_escaped(std::string& text, const std::string& word) {
  if (std::ranges::none_of(word, needs_escape)) {
    text += word;
    return;
  }
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (needs_escape(c))
      text += {'%', digits[byte >> 4], digits[byte & 15]};
    else
      text += c;
  }
}

std::string unescaped(std::string_view text, std::string_view argument) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const begin = text.data() + i + 1;
    const char* const end = text.data() + std::min(text.size(), i + 3);
    if (const auto read = std::from_chars(begin, end, byte, 16); read.ec != std::errc() || read.ptr != begin + 2)
      throw Error(ErrorCode::invalid_argument, argument, " contains '", text.substr(i, 3),
                  "'; expected two hexadecimal digits after a percent sign, which itself is %25");
    result += static_cast<char>(byte);
    i += 2;
  }
  return result;
}

/// Appends a value that is not a string.
void append_number(std::string& text, const Value& value) {
  std::array<char, 64> buffer;  // NOLINT: written before it is read
  char* const end = buffer.data() + buffer.size();
  const auto* const integer = std::get_if<std::int64_t>(&value);
  const auto result = integer != nullptr ? std::to_chars(buffer.data(), end, *integer)
                                         : std::to_chars(buffer.data(), end, std::get<double>(value));
  text.append(buffer.data(), result.ptr);
}

template <typename Word>
std::string listed(const std::vector<std::pair<std::string, Value>>& items, const Word& append_word) {
  constexpr std::size_t usual_item_bytes = 16;
  std::string result;
  result.reserve(items.size() * usual_item_bytes);
  for (const auto& [name, value] : items) {
    if (!result.empty()) result += ',';
    result.append(name) += '=';
    if (const auto* word = std::get_if<std::string>(&value))
      append_word(result, *word);
    else
      append_number(result, value);
  }
  return result;
}

}  // namespace

std::string Fields::text() const { return listed(items_, append_escaped); }

std::string Fields::short_text() const {
  return listed(items_, [](std::string& text, const std::string& word) {
    text += std::ranges::any_of(word, needs_escape) ? "<" + hash_hex(word).substr(0, 8) + ">" : word;
  });
}

Fields parse_fields(std::string_view text, std::string_view argument) {
  Fields fields;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == item.size())
      throw Error(ErrorCode::invalid_argument, argument, " contains '", item, "'; expected NAME=VALUE,NAME=VALUE,...");
    const std::string_view name = item.substr(0, equals);
    if (fields.contains(name)) throw Error(ErrorCode::invalid_argument, argument, " names '", name, "' twice");
    const std::string_view value = item.substr(equals + 1);
    fields.set(name, value.find('%') == std::string_view::npos ? parse_value(value) : unescaped(value, argument));
  }
  return fields;
}

}  // namespace tunesmith
