#pragma once
// Pieces of generated source shared by operations. Internal to templates/.

#include <string>
#include <string_view>
#include <type_traits>

#include "tunesmith/types.h"

namespace tunesmith {

/// Returns a line of a designated initializer.
inline std::string member(std::string_view name, const std::string& value) {
  return "    ." + std::string(name) + " = " + value + ",\n";
}
template <typename Number>
requires std::is_arithmetic_v<Number> std::string member(std::string_view name, Number value) {
  if constexpr (std::is_same_v<Number, bool>) return member(name, std::string(value ? "true" : "false"));
  return member(name, std::to_string(value));
}

/// Returns the device type of elements: float, double, int, tunesmith::f16, tunesmith::bf16.
inline std::string device_type(DType dtype) {
  if (dtype == DType::f64) return "double";
  if (dtype == DType::i32) return "int";
  return dtype == DType::f32 ? "float" : "tunesmith::" + std::string(name(dtype));
}

}  // namespace tunesmith
