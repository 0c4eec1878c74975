#pragma once
// The description of a problem: the function `describe` next to the problem's struct lists each field, option and array
// once, and all code that needs them visits this function. A problem type P has
//
//   using Arrays = PArrays;                                   the addresses that a call takes
//   static constexpr std::string_view summary = ...;          (or what the operation's class needs)
//   std::string_view op() const noexcept;                     the operation's name, a string literal
//
// and in its namespace
//
//   template <DescribedAs<P> Self, DescriptionVisitor Visitor>
//   constexpr void describe(Self& p, const PArrays& arrays, Visitor& v) {
//     v.field("rows", p.rows, {.meaning = "number of rows", .range = {0, most}, .required = true});
//     v.option("scale", p.scale, {.meaning = "factor of x", .range = {1e-30, 1e30}});
//     v.array(arrays.x, {.name = "x", .dtype = p.dtype, .shape = {size(p.rows), size(p.cols)}, ...});
//   }
//
// The normal form of a problem contains all fields, and the options that differ from their defaults. describe() must support
// problems whose optional fields are absent: it reads them with value_or().

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "tunesmith/enum_names.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// The problem itself, or the problem as const: what a describe() function takes.
template <typename Self, typename Problem>
concept DescribedAs = std::same_as<std::remove_const_t<Self>, Problem>;

/// The allowed values of a field: integers or real numbers, both ends included.
struct Range {
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  double min_real = -std::numeric_limits<double>::infinity(), max_real = std::numeric_limits<double>::infinity();

  constexpr Range() = default;
  template <std::integral Least, std::integral Most>
  constexpr Range(Least from, Most to) : least(from), most(to) {}
  template <std::integral Least>
  constexpr Range(Least from) : least(from) {}  // NOLINT(google-explicit-constructor): .range = {1}
  template <std::floating_point Least, std::floating_point Most>
  constexpr Range(Least from, Most to) : min_real(from), max_real(to) {}
};

/// The default of an optional field that depends on another field: its text in help, and its value for this problem.
struct Default {
  std::string_view text{};  ///< "cols"; empty: the field stays absent
  std::int64_t integer = 0;
  double real = 0;

  constexpr Default() = default;
  template <std::integral Integer>
  constexpr Default(std::string_view said, Integer value) : text(said), integer(value) {}
  template <typename Enum>
  requires std::is_enum_v<Enum>
  constexpr Default(std::string_view said, Enum value) : text(said), integer(static_cast<std::int64_t>(value)) {}
  constexpr Default(std::string_view said, double value) : text(said), real(value) {}
};

/// A field that requires another one: whether the requirement is met, and what to set otherwise.
struct Condition {
  bool holds = true;
  std::string_view text{};  ///< "valid_cols=1"
};

/// A set of enum values, one bit each.
using Choices = std::uint64_t;
template <typename Enum, typename... More>
requires std::is_enum_v<Enum>
constexpr Choices one_of(Enum first, More... more) noexcept {
  return ((Choices{1} << static_cast<unsigned>(first)) | ... | (Choices{1} << static_cast<unsigned>(more)));
}
inline constexpr Choices any_choice = ~Choices{0};
inline constexpr Choices float_dtypes = one_of(DType::f32, DType::f16, DType::bf16);
inline constexpr Choices float_or_double_dtypes = float_dtypes | one_of(DType::f64);

/// Properties of a field in addition to its name and type.
struct FieldFacts {
  std::string_view meaning{};    ///< one line, with the unit
  Range range{};                 ///< of numbers
  std::int64_t step = 1;         ///< integers are multiples of it
  bool power_of_two = false;     ///< integers are powers of two
  bool zero_too = false;         ///< also accepts 0, below the range: it broadcasts or disables
  std::int64_t cap = 0;          ///< larger integers are replaced by it; 0: no cap
  Choices choices = any_choice;  ///< of an enum
  Default follows{};             ///< of an optional field
  bool required = false;         ///< has no default
  Condition only_with{};
  std::string_view bare{};    ///< the value that the command line's flag means without one; flags mean 1
  bool hidden = false;        ///< not listed by help
  bool runtime = false;       ///< not compiled in: problems that differ only in such fields have the same source
  bool omit_default = false;  ///< the normal form omits the field, like an option, if it equals its default
};

/// Returns the properties of an alignment field: a power of two, at least the size of an element and at most 16, because no
/// access is wider.
constexpr FieldFacts alignment_facts(std::string_view meaning, DType dtype) {
  FieldFacts facts;
  facts.meaning = meaning;
  facts.range = {size_of(dtype), std::int64_t{1} << 40};
  facts.power_of_two = true;
  facts.cap = 16;
  return facts;
}

enum class Role : std::uint8_t { input, output, in_out };

/// One extent of an array: a field's value plus a constant, or a number.
struct Extent {
  const void* field = nullptr;  ///< address of the field; nullptr: none
  std::int64_t value = 0;
  std::int64_t plus = 0;    ///< part of value: value = field + plus
  std::string_view text{};  ///< what a computed extent is: "ceil(rows / group)"
};

/// Makes an extent of a field's value plus a constant. The field can be inferred from the shape of an array.
constexpr Extent size(const std::int64_t& field, std::int64_t plus = 0) noexcept { return {&field, field + plus, plus, {}}; }
/// Makes an extent of an optional field, with the value to use if it is absent.
constexpr Extent size(const std::optional<std::int64_t>& field, std::int64_t absent, std::int64_t plus = 0) noexcept {
  return {&field, field.value_or(absent) + plus, plus, {}};
}
/// Makes an extent that is not a field. `text` describes it if it is not constant.
constexpr Extent fixed(std::int64_t value, std::string_view text = {}) noexcept { return {nullptr, value, 0, text}; }

/// Up to six items, without allocation.
template <typename Item>
struct Dims {
  static constexpr std::size_t most = 6;
  std::array<Item, most> items{};
  std::size_t count = 0;

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<Item> list) {
    for (const Item& item : list) add(item);
  }
  constexpr void add(const Item& item) noexcept { items[count++] = item; }
  constexpr const Item* begin() const noexcept { return items.data(); }
  constexpr const Item* end() const noexcept { return items.data() + count; }
};

/// Properties of an array.
struct ArrayFacts {
  std::string_view name{};
  Role role = Role::input;
  DType dtype = DType::f32;
  Dims<Extent> shape{};
  Dims<std::int64_t> strides{};             ///< elements; empty: contiguous, the last dimension innermost
  const std::int64_t* alignment = nullptr;  ///< the field that promises the address's alignment; nullptr: aligned_to
  std::int64_t aligned_to = 0;              ///< bytes; 0: one element
  bool present = true;                      ///< the problem has it
  bool optional = false;                    ///< a launch accepts nullptr
  const bool* enabled_by = nullptr;         ///< option that a non-null address enables in a one-shot call
  std::string_view in_place_of{};           ///< input that this output overwrites; empty: none
  const bool* in_place = nullptr;           ///< option that an output address equal to its input's enables
  const void* in_place_choice = nullptr;    ///< or the enum, with the values separate and in_place
  const void* shares = nullptr;             ///< the address of the input that this output may equal, in a one-shot call
  std::string_view meaning{};
};

/// A problem's struct that describes itself.
template <typename Problem>
concept DescribedProblem = requires(const Problem& problem) {
  typename Problem::Arrays;
  { problem.op() } -> std::same_as<std::string_view>;
};

/// Visits a description. A visitor's functions are templates over the member's type and not virtual. A visitor with a
/// function user_array(address) ignores problems with text; it gets the addresses of arrays that only a text can declare.
template <typename Visitor>
concept DescriptionVisitor = requires(Visitor& v, std::int64_t& number, const void* address) {
  v.field(std::string_view(), number, FieldFacts());
  v.option(std::string_view(), number, FieldFacts());
  v.array(address, ArrayFacts());
};

}  // namespace tunesmith
