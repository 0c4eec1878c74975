#pragma once
// Named scalar values: what problems and configurations are made of, and how they are described to people.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tunesmith {

/// An integer (booleans are 0 and 1), a real number, or a word such as "bf16".
using Value = std::variant<std::int64_t, double, std::string>;

/// "4096", "0.125" (shortest text that reads back the same), or the word itself.
std::string text(const Value& value);
/// Integer if the whole text is one, else real number if the whole text is one, else word.
Value parse_value(std::string_view text);

/// A small ordered map from name to value; order is insertion order, which is also print order.
class Fields {
 public:
  Fields() = default;
  Fields(std::initializer_list<std::pair<std::string, Value>> items) : items_(items) {}

  /// Replaces the value if the name is there, appends otherwise.
  void set(std::string_view name, Value value);
  /// nullptr when absent. Valid until the next set().
  const Value* find(std::string_view name) const noexcept;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// Typed reads; throw Error(invalid_argument) naming the field when it is absent or of another type.
  /// real() accepts an integer.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& word(std::string_view name) const;

  std::size_t size() const noexcept { return items_.size(); }
  bool empty() const noexcept { return items_.empty(); }
  auto begin() const noexcept { return items_.begin(); }
  auto end() const noexcept { return items_.end(); }

  /// "threads=256,load=plain": canonical for a given order; parse_fields() reads it back. In words, commas, percent signs
  /// and control characters such as line ends are written as %2C.
  std::string text() const;
  /// The same for people: a word that text() could not write as it is, such as a user's source, is shown as <its hash>.
  std::string short_text() const;
  bool operator==(const Fields&) const = default;

 private:
  std::vector<std::pair<std::string, Value>> items_;
};

/// Reads "K=V,K=V"; throws Error(invalid_argument) that calls the text `argument`. An empty text is an empty map.
Fields parse_fields(std::string_view text, std::string_view argument);

/// What a field holds.
enum class FieldKind : std::uint8_t {
  integer,
  real,
  flag,    ///< 0 or 1
  choice,  ///< one of FieldInfo::words
  text,    ///< any characters and lines, such as a user's source
};

/// Describes one field to people and to the checks: the command line builds its help and its errors from this.
struct FieldInfo {
  std::string_view name;
  std::string_view meaning;             ///< one line, with the unit
  std::string default_text;             ///< empty: required
  std::vector<std::string_view> words;  ///< allowed words; empty for numbers
  bool option = false;                  ///< no shape, no dtype: --option NAME=VALUE on the command line instead of a flag
  bool text = false;                    ///< a word of any characters and lines; a flag of it takes the name of a file
  FieldKind kind = FieldKind::integer;
  std::string range_text{};  ///< what numbers are allowed: "1 to 2147483647"; may be empty
  bool hidden = false;       ///< not listed by help
};

}  // namespace tunesmith
