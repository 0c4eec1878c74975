#pragma once
// Named scalar values, which problems and configurations consist of, and their descriptions.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tunesmith {

/// An integer (booleans are 0 and 1), a real number, or a string such as "bf16".
using Value = std::variant<std::int64_t, double, std::string>;

/// Prints a value: "4096", "0.125" (the shortest form that parses to the same value), or the string itself.
std::string text(const Value& value);
/// Parses an integer or a real number if the whole text is one; returns the text as a string otherwise.
Value parse_value(std::string_view text);

/// A small map from name to value that keeps insertion order, also when printed.
class Fields {
 public:
  Fields() = default;
  Fields(std::initializer_list<std::pair<std::string, Value>> items) : items_(items) {}

  /// Sets a value; appends the name if it is new.
  void set(std::string_view name, Value value);
  /// Does the same for a name that is new, without looking for it.
  void append(std::string_view name, Value value) { items_.emplace_back(name, std::move(value)); }
  /// Allocates memory for `count` fields at once.
  void reserve(std::size_t count) { items_.reserve(count); }
  /// Returns the value, or nullptr if the name is absent. Valid until the next set().
  const Value* find(std::string_view name) const noexcept;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// Return a value of the given type; real() accepts an integer. Throw Error(invalid_argument) with the field's name if it
  /// is absent or has another type.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& string(std::string_view name) const;

  std::size_t size() const noexcept { return items_.size(); }
  bool empty() const noexcept { return items_.empty(); }
  auto begin() const noexcept { return items_.begin(); }
  auto end() const noexcept { return items_.end(); }

  /// Prints all fields as "threads=256,load=plain"; parse_fields() is the inverse. Commas, percent signs and control
  /// characters in strings are escaped, e.g. %2C.
  std::string text() const;
  /// Prints all fields for display: a string that text() would have to escape, such as a user's source, becomes `<hash>`.
  std::string short_text() const;
  bool operator==(const Fields&) const = default;

 private:
  std::vector<std::pair<std::string, Value>> items_;
};

/// Parses "K=V,K=V"; an empty text is an empty map. Throws Error(invalid_argument) in which the text is named `argument`.
Fields parse_fields(std::string_view text, std::string_view argument);

/// The kind of a field's value.
enum class FieldKind : std::uint8_t {
  integer,
  real,
  flag,    ///< 0 or 1
  choice,  ///< one of FieldInfo::choices
  text,    ///< any characters, such as the source of a user function
};

/// Describes one field; the checks, the command line's help and its errors derive from it.
struct FieldInfo {
  std::string_view name;
  std::string_view meaning;               ///< one line, with the unit
  std::string default_text;               ///< empty: required
  std::vector<std::string_view> choices;  ///< allowed strings; empty for numbers
  bool option = false;                    ///< neither shape nor dtype: --option NAME=VALUE on the command line
  bool text = false;                      ///< a string with any characters, such as source code; its flag takes a file name
  FieldKind kind = FieldKind::integer;
  std::string_view bare{};   ///< the value of the command line's flag without a value; empty: it needs one
  std::string range_text{};  ///< allowed numbers: "1 to 2147483647"; may be empty
  bool hidden = false;       ///< not listed by help
  bool runtime = false;      ///< not compiled in, see FieldFacts::runtime
};

}  // namespace tunesmith
