#pragma once
// User arrays and numbers that the user functions of attention read, as members of their argument aux.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tunesmith/description.h"

namespace tunesmith {

/// An array or a number that score_mod and mask_mod read. Kernels are not specialized for lengths and numbers. A string is
/// an expression of integers and sizes of the problem, such as "2*seq_kv-1" (docs/score-mod.md).
struct AttentionAux {
  std::string name;               ///< name of the member: "slopes"
  DType dtype = DType::f32;       ///< any for an array; f32, i32 or i64 for a number
  std::optional<Value> length{};  ///< elements of an array, an integer or an expression; absent: it is a number
  Value value = std::int64_t{0};  ///< of a number
  bool operator==(const AttentionAux&) const = default;
};

/// Returns the generic form: "slopes:f32[heads];window:i64=128". Throws Error(invalid_argument) for a malformed declaration.
template <>
struct FieldType<std::vector<AttentionAux>> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value get(const std::vector<AttentionAux>& member);
  static void set(std::vector<AttentionAux>& member, const Value& value);
};

/// An auxiliary array as a kernel sees it.
struct AttentionAuxArray {
  std::string_view name;  ///< refers to the problem's strings
  DType dtype = DType::f32;
  std::int64_t length = 0;  ///< 0 if the declaration has no valid length
};

}  // namespace tunesmith
