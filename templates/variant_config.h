#pragma once
// Configurations that have only the fields of their variant. Internal to templates/. `described` describes the fields that
// an object's member `variant` has.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tunesmith/description.h"

namespace tunesmith {

/// Returns the fields without those that have one of these values: options of earlier versions that are constants now.
inline Fields without(const Fields& fields, std::initializer_list<std::pair<std::string_view, Value>> constants) {
  Fields rest;
  for (const auto& [name, value] : fields)
    if (std::ranges::find(constants, std::pair<std::string_view, Value>(name, value)) == constants.end())
      rest.set(name, value);
  return rest;
}

/// Reads the variant. `owner`: "attention's configurations". Throws Error(invalid_argument) that lists the variants.
template <typename Variant>
Variant read_variant(std::string_view owner, const Fields& fields) {
  Variant variant{};
  Description description([&](Description& v) { v.field("variant", variant, {.required = true}); });
  Fields only;
  if (const Value* const given = fields.find("variant")) only.set("variant", *given);
  description.read(owner, only);
  return variant;
}

/// Reads all fields of a variant. Throws Error(invalid_argument) naming the field, its value and what is allowed.
template <typename Typed, typename Variant>
Typed read_fields(Variant variant, const Fields& fields, Description (*described)(Typed&)) {
  Typed typed;
  typed.variant = variant;
  Description description = described(typed);
  description.read("variant " + std::string(enum_name(variant)), fields);
  description.check(fields);
  return typed;
}

/// Returns all fields of a configuration but those that facts.omit_default omits.
template <typename Typed>
Fields fields_of(Typed typed, Description (*described)(Typed&)) {
  Typed defaults;
  defaults.variant = typed.variant;
  return described(typed).normal_form(described(defaults));
}

}  // namespace tunesmith
