#pragma once
// The table that a problem's describe() fills: arrays, and fields with access to their members. All code outside of the hot
// path reads this table: checks, defaults, the generic form, help, array layouts. See tunesmith/describe.h.

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tunesmith/array_info.h"
#include "tunesmith/describe.h"
#include "tunesmith/problem.h"

namespace tunesmith {

/// Reads and writes a member of some type as a Value. An operation may specialize it for its own types, with the members of
/// the specialization for strings.
template <typename Member>
struct FieldType;

template <std::integral Integer>
struct FieldType<Integer> {
  static constexpr FieldKind kind = FieldKind::integer;
  static Value get(Integer member) { return std::int64_t{member}; }
  static void set(Integer& member, const Value& value) {
    constexpr std::int64_t least = std::numeric_limits<Integer>::min(), most = std::numeric_limits<Integer>::max();
    member = static_cast<Integer>(std::clamp(std::get<std::int64_t>(value), least, most));
  }
};
template <>
struct FieldType<bool> {
  static constexpr FieldKind kind = FieldKind::flag;
  static Value get(bool member) { return std::int64_t{member}; }
  static void set(bool& member, const Value& value) { member = std::get<std::int64_t>(value) != 0; }
};
template <>
struct FieldType<double> {
  static constexpr FieldKind kind = FieldKind::real;
  static Value get(double member) { return member; }
  static void set(double& member, const Value& value) { member = std::get<double>(value); }
};
template <>
struct FieldType<std::string> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const std::string& member) { return member; }
  static void set(std::string& member, const Value& value) { member = std::get<std::string>(value); }
};
/// The values of an enum are its numbers; only the generic form has names.
template <NamedEnum Enum>
struct FieldType<Enum> {
  static constexpr FieldKind kind = FieldKind::choice;
  static constexpr std::span<const std::string_view> names = enum_names<Enum>;
  static Value get(Enum member) { return static_cast<std::int64_t>(member); }
  static void set(Enum& member, const Value& value) { member = static_cast<Enum>(std::get<std::int64_t>(value)); }
};

/// Access to members of one type, without the type.
struct FieldAccess {
  FieldKind kind;
  std::span<const std::string_view> names;
  bool optional;
  std::optional<Value> (*get)(const void* member);
  void (*set)(void* member, const Value& value);
};

template <typename Member>
struct OptionalTraits {
  using Type = Member;
  static constexpr bool optional = false;
};
template <typename Member>
struct OptionalTraits<std::optional<Member>> {
  using Type = Member;
  static constexpr bool optional = true;
};

template <typename Member>
const FieldAccess& field_access() {
  using Traits = OptionalTraits<Member>;
  using Type = FieldType<typename Traits::Type>;
  static const FieldAccess access = [] {
    FieldAccess made{Type::kind, {}, Traits::optional, nullptr, nullptr};
    if constexpr (requires { Type::names; }) made.names = Type::names;
    made.get = [](const void* address) -> std::optional<Value> {
      const Member& member = *static_cast<const Member*>(address);
      if constexpr (Traits::optional)
        return member ? std::optional<Value>(Type::get(*member)) : std::nullopt;
      else
        return Type::get(member);
    };
    made.set = [](void* address, const Value& value) {
      Member& member = *static_cast<Member*>(address);
      if constexpr (Traits::optional)
        Type::set(member.emplace(), value);
      else
        Type::set(member, value);
    };
    return made;
  }();
  return access;
}

/// A field of a described object with its limits, for programs that make problems. `value` is in the generic form.
struct DescribedField {
  std::string_view name;
  FieldKind kind = FieldKind::integer;
  FieldFacts facts{};
  bool option = false, optional = false;
  std::vector<std::string_view> choices{};  ///< allowed strings; empty for numbers
  std::optional<Value> value{};             ///< of this object; nothing: absent
};

/// The fields and arrays of one object. It refers to the object's members: the object must outlive it and stay in place.
class Description {
 public:
  /// Describes a problem. Only read() and resolve() write its members.
  template <typename Problem>
  explicit Description(Problem& problem) {
    reserve();
    const typename Problem::Arrays none{};
    describe(problem, none, *this);
  }
  /// Describes another object with fields; `visit` calls field() and option().
  template <typename Visit>
  requires std::invocable<Visit, Description&>
  explicit Description(const Visit& visit) { visit(*this); }

  // Functions that describe() calls.
  template <typename Member>
  void field(std::string_view name, const Member& member, const FieldFacts& facts) {
    fields_.emplace_back(name, facts, false, &member, field_access<Member>());
  }
  template <typename Member>
  void option(std::string_view name, const Member& member, const FieldFacts& facts) {
    fields_.emplace_back(name, facts, true, &member, field_access<Member>());
  }
  void array(const void*, const ArrayFacts& facts) { arrays_.push_back(facts); }

  /// Sets the members that `given` names. Throws Error(invalid_argument) for a field that `owner` ("softmax") does not have,
  /// a missing required field, and a value of another type. Properties that depend on other fields are not updated: describe
  /// the object again, then call check() and resolve().
  void read(std::string_view owner, const Fields& given);
  /// Does the same without these checks: skips fields that the object does not have, and requires none.
  void read_known(const Fields& given);
  /// Checks all values. Throws Error(invalid_argument) with the field, its value and the allowed values. `given` is the
  /// argument of read().
  void check(const Fields& given) const;
  /// Does the same for all values that differ from the defaults, as if they were given.
  void check_as_given(const Description& defaults) const;
  /// Checks the arrays. Throws Error(invalid_argument) for an array that would exceed any memory.
  void check_extents() const;
  /// Fills in defaults that depend on other fields, and applies caps.
  void resolve();
  /// Checks that defaults that depend on other fields are within their limits, such as strides of arrays without elements.
  void check_defaults() const;

  /// Returns the generic form of a resolved object: all fields, and the options that differ from `defaults`, which describes
  /// a default-constructed object.
  Fields normal_form(const Description& defaults) const;
  /// Returns the generic form of an unresolved object: without absent fields and without options at their defaults.
  Fields given_form(const Description& defaults) const;

  std::vector<FieldInfo> field_infos() const;
  std::vector<DescribedField> described_fields() const;
  /// Returns the arrays in launch order; with `all`, also those that the problem does not use.
  std::vector<ArrayInfo> array_infos(bool all = false) const;
  /// Returns the arrays in launch order without what only a reader needs: meaning, dims, alignment_field, in_place_field.
  std::vector<ArrayInfo> array_layouts() const;
  /// Infers fields from an array's shape; returns none if there is no such array or its rank differs.
  Fields infer(std::string_view array, std::span<const std::int64_t> shape) const;

 private:
  struct Entry {
    std::string_view name;
    FieldFacts facts;
    bool option;
    const void* member;
    const FieldAccess* access;

    /// Copies `facts` once, into place.
    Entry(std::string_view name_of_field, const FieldFacts& facts_of_field, bool is_option, const void* of,
          const FieldAccess& accessor)
        : name(name_of_field), facts(facts_of_field), option(is_option), member(of), access(&accessor) {}
    std::optional<Value> get() const { return access->get(member); }
    void set(const Value& value) const { access->set(const_cast<void*>(member), value); }
    /// Converts a value to the generic form, which has an enum's name instead of its number.
    Value generic(const Value& value) const;
    Value parsed(const Fields& given) const;
    [[noreturn]] void reject_without_condition(const Value& value) const;
    void check(const Value& value) const;
    std::string range_text() const;
    std::vector<std::string_view> words() const;
    Value follows() const;
  };

  /// Allocates at once what a description of a problem takes.
  void reserve() {
    fields_.reserve(48);
    arrays_.reserve(16);
  }
  /// Returns the name of the field that is stored in `member`; empty if there is none.
  std::string_view name_of(const void* member) const;
  std::string dim_text(const Extent& extent) const;
  void add_texts(const ArrayFacts& array, ArrayInfo& info) const;
  Fields form(const Description& defaults, bool normal) const;

  std::vector<Entry> fields_;
  std::vector<ArrayFacts> arrays_;
};

/// Returns whether an array that is present spans at most 2^56 bytes: far beyond any memory, far below overflow.
bool fits_memory(const ArrayFacts& array) noexcept;

/// A visitor of describe() that checks the arrays only.
struct ExtentCheck {
  bool fit = true;

  template <typename Member>
  void field(std::string_view, const Member&, const FieldFacts&) noexcept {}
  template <typename Member>
  void option(std::string_view, const Member&, const FieldFacts&) noexcept {}
  void array(const void*, const ArrayFacts& facts) noexcept { fit = fit && fits_memory(facts); }
};

/// Checks the arrays of a problem as Description::check_extents() does, without a table.
template <typename Problem>
void check_extents(Problem& problem) {
  ExtentCheck arrays;
  const typename Problem::Arrays none{};
  describe(problem, none, arrays);
  if (!arrays.fit) Description(problem).check_extents();
}

/// Converts a problem from its generic form: checks names, types, ranges and conditions, and fills in defaults. `prototype`
/// holds what the fields do not contain, such as which of two operations it is. Throws Error(invalid_argument).
template <typename Typed>
Typed read_problem(const Typed& prototype, const Fields& given) {
  Typed problem = prototype;
  Description(problem).read(problem.op(), given);
  Description description(problem);
  description.check(given);
  description.resolve();
  check_extents(problem);
  description.check_defaults();
  return problem;
}

/// Describes a default-constructed problem.
template <typename Typed>
const Description& description_of_defaults() {
  static const Typed defaults{};
  static const Description description(defaults);
  return description;
}

/// Returns the generic form of a typed problem without checking it; Engine::prepare checks it.
template <DescribedProblem Typed>
Problem to_problem(const Typed& problem) {
  return {std::string(problem.op()), Description(problem).given_form(description_of_defaults<Typed>())};
}

}  // namespace tunesmith
