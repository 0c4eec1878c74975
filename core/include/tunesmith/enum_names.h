#pragma once
// The one list of names that an enum has: fields, errors, help and bindings read it.

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace tunesmith {

/// Names of an enum's values in the order of their numbers, which count from 0. Specialize it beside the enum:
///   template <>
///   inline constexpr std::array<std::string_view, 2> enum_names<Effort>{"quick", "full"};
template <typename Enum>
inline constexpr std::array<std::string_view, 0> enum_names{};

template <typename Enum>
concept NamedEnum = std::is_enum_v<Enum> && enum_names<Enum>
.size() > 0;

/// "bf16".
template <NamedEnum Enum>
constexpr std::string_view enum_name(Enum value) noexcept {
  const auto at = static_cast<std::size_t>(value);
  return at < enum_names<Enum>.size() ? enum_names<Enum>[at] : std::string_view("unknown");
}

}  // namespace tunesmith
