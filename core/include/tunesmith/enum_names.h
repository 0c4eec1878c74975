#pragma once
// The names of an enum's values, which fields, errors, help and bindings use.

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace tunesmith {

/// Names of an enum's values, in the order of their numbers from 0. Specialize it next to the enum:
///   template <>
///   inline constexpr std::array<std::string_view, 2> enum_names<Effort>{"quick", "full"};
template <typename Enum>
inline constexpr std::array<std::string_view, 0> enum_names{};

template <typename Enum>
concept NamedEnum = std::is_enum_v<Enum> && enum_names<Enum>
.size() > 0;

/// Returns the name of a value, e.g. "bf16".
template <NamedEnum Enum>
constexpr std::string_view enum_name(Enum value) noexcept {
  const auto at = static_cast<std::size_t>(value);
  return at < enum_names<Enum>.size() ? enum_names<Enum>[at] : std::string_view("unknown");
}

}  // namespace tunesmith
