#pragma once
// The table that a problem's describe() fills: fields with access to their members, arrays. Everything that is not on the hot
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

/// How a member of some type is read and written as a Value. An operation may specialize it for a type of its own; the
/// members are those of the specialization for strings.
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
/// Values are the enum's numbers; names appear in the generic form only.
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

/// The fields and arrays of one object. It refers to the object's members: the object must outlive it and stay in place.
class Description {
 public:
  /// Of a problem. Members are written only by read() and resolve().
  template <typename Problem>
  explicit Description(Problem& problem) {
    const typename Problem::Arrays none{};
    describe(problem, none, *this);
  }
  /// Of a call: a problem and the addresses of its arrays.
  template <typename Problem>
  Description(const Problem& problem, const typename Problem::Arrays& arrays) {
    describe(problem, arrays, *this);
  }
  /// Of anything else that fields make up: `visit` calls field() and option().
  template <typename Visit>
    requires std::invocable<Visit, Description&>
  explicit Description(const Visit& visit) {
    visit(*this);
  }

  // What describe() calls.
  template <typename Member>
  void field(std::string_view name, const Member& member, const FieldFacts& facts) {
    fields_.push_back({name, facts, false, &member, &field_access<Member>()});
  }
  template <typename Member>
  void option(std::string_view name, const Member& member, const FieldFacts& facts) {
    fields_.push_back({name, facts, true, &member, &field_access<Member>()});
  }
  void array(const void* address, const ArrayFacts& facts) {
    arrays_.push_back(facts);
    addresses_.push_back(address);
  }

  /// Sets the members that `given` names. Throws Error(invalid_argument) for a field that `owner` ("softmax") does not have,
  /// a required one that is missing, and a value of another type. Facts that depend on other fields are those of before:
  /// describe the object again, then check() and resolve().
  void read(std::string_view owner, const Fields& given);
  /// The same without those checks: what the object does not have is skipped, and nothing is required.
  void read_known(const Fields& given);
  /// Throws Error(invalid_argument) naming the field, its value and what is allowed. `given`: what read() had.
  void check(const Fields& given) const;
  /// Throws Error(invalid_argument) for an array that would span more than any memory.
  void check_extents() const;
  /// Throws Error(invalid_argument) for an array whose address is null or not aligned to an element.
  void check_addresses() const;
  /// Fills in defaults that follow other fields, and applies caps.
  void resolve();

  /// The generic form of a resolved object: fields always, options where they differ from `defaults`, the description of a
  /// default-constructed object.
  Fields normal_form(const Description& defaults) const;
  /// What an unchecked, unresolved object says: no field that is absent, no option at its default.
  Fields given_form(const Description& defaults) const;

  std::vector<FieldInfo> field_infos() const;
  /// Of the arrays that are present, in launch order; `all`: the others too.
  std::vector<ArrayInfo> array_infos(bool all = false) const;
  /// The fields that an array's shape tells; empty when it has no such array or another rank.
  Fields infer(std::string_view array, std::span<const std::int64_t> shape) const;

 private:
  struct Entry {
    std::string_view name;
    FieldFacts facts;
    bool option;
    const void* member;
    const FieldAccess* access;

    std::optional<Value> get() const { return access->get(member); }
    void set(const Value& value) const { access->set(const_cast<void*>(member), value); }
    /// In the generic form: an enum's name instead of its number.
    Value generic(const Value& value) const;
    Value parsed(const Fields& given) const;
    void check(const Value& value) const;
    std::string range_text() const;
    std::vector<std::string_view> words() const;
    Value follows() const;
  };

  std::string dim_text(const Extent& extent) const;
  Fields form(const Description& defaults, bool normal) const;

  std::vector<Entry> fields_;
  std::vector<ArrayFacts> arrays_;
  std::vector<const void*> addresses_;  // of arrays_
};

/// A problem from its generic form: unknown fields, types, ranges and conditions are checked, defaults filled in.
/// `prototype` has what the fields do not say (which of two operations it is). Throws Error(invalid_argument).
template <typename Typed>
Typed read_problem(const Typed& prototype, const Fields& given) {
  Typed problem = prototype;
  Description(problem).read(problem.op(), given);
  Description description(problem);
  description.check(given);
  description.resolve();
  Description(problem).check_extents();
  return problem;
}

/// The normal form of a problem that read_problem() returned.
template <typename Typed>
Problem normal_problem(const Typed& problem) {
  const Typed defaults{};
  return {std::string(problem.op()), Description(problem).normal_form(Description(defaults))};
}

/// The generic form of a typed problem as it is given. Checks nothing: Engine::prepare does.
template <DescribedProblem Typed>
Problem to_problem(const Typed& problem) {
  const Typed defaults{};
  return {std::string(problem.op()), Description(problem).given_form(Description(defaults))};
}

}  // namespace tunesmith
