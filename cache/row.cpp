#include "cache/row.h"

#include <bit>
#include <cmath>

#include "core/hash.h"

namespace tunesmith {
namespace {

// A larger value is replaced by its hash, to avoid copying megabytes of image.
constexpr std::size_t hashed_from_bytes = 4096;

void append_escaped(std::string& text, std::string_view value, bool is_name) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || (is_name && c == '=')) text += '\\';
    text += c;
  }
}

}  // namespace

RowDigest& RowDigest::add(std::string_view bytes) {
  content_ += std::to_string(bytes.size());
  content_ += bytes.size() < hashed_from_bytes ? ':' : '#';
  if (bytes.size() < hashed_from_bytes) {
    content_ += bytes;
  } else {
    content_ += hash_hex(bytes);
  }
  return *this;
}

RowDigest& RowDigest::add(std::int64_t value) { return add(std::string_view(std::to_string(value))); }

RowDigest& RowDigest::add(double value) {
  if (std::isnan(value)) return add(std::string_view("nan"));
  return add(std::bit_cast<std::int64_t>(value == 0 ? 0.0 : value));
}

std::string RowDigest::hex() const { return hash_hex(content_); }

std::string to_lines(const std::map<std::string, std::string>& items) {
  std::string text;
  for (const auto& [name, value] : items) {
    append_escaped(text, name, true);
    text += '=';
    append_escaped(text, value, false);
    text += '\n';
  }
  return text;
}

std::map<std::string, std::string> from_lines(std::string_view text) {
  std::map<std::string, std::string> items;
  std::string name, value;
  bool in_value = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      items[name] = value;
      name.clear();
      value.clear();
      in_value = false;
    } else if (c == '=' && !in_value) {
      in_value = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      const char escaped = text[++i];
      (in_value ? value : name) += escaped == 'n' ? '\n' : escaped;
    } else {
      (in_value ? value : name) += c;
    }
  }
  return items;
}

}  // namespace tunesmith
