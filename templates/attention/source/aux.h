#pragma once
// Declarations of the arrays and numbers that user functions read: "slopes:f32[heads]; window:i64=128". Internal to
// templates/.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tunesmith/attention_aux.h"

namespace tunesmith::attention {

inline constexpr std::size_t max_aux = 8;  // attention_aux_slots of params.cuh

/// A size that declarations may name, and its value: {"heads", 32}.
using Dimension = std::pair<std::string_view, std::int64_t>;

struct Aux {
  std::string name;
  DType dtype = DType::f32;
  bool is_array = false;
  /// Length of the array or value of the number, without blanks: a number, or sums and products of numbers and dimensions,
  /// such as heads*(2*seq_kv-1); for f32 numbers also 0.5.
  std::string size;

  /// "slopes:f32[heads]".
  std::string text() const;
  /// What kernels are specialized for: "slopes:f32[]", "window:i64".
  std::string type_text() const;
  /// Elements of the array. Throws Error(invalid_argument) when that is no length from 0 to 2^40.
  std::int64_t length(std::span<const Dimension> dimensions) const;
  /// The number as the kernel's parameters hold it. Throws Error(invalid_argument) when it does not fit its type.
  std::uint64_t bits(std::span<const Dimension> dimensions) const;

  static Aux of(const AttentionAux& aux);
  AttentionAux typed() const;
  bool operator==(const Aux&) const = default;
};

/// Parses declarations separated by semicolons. Throws Error(invalid_argument) that names `argument`, the declaration and
/// what is allowed.
std::vector<Aux> parse_aux(std::string_view declarations, std::string_view argument);
/// Collects the declarations of the lines "// aux: ..." in the opening comment of a user source.
std::string aux_lines(std::string_view source);
/// Returns the declarations of both; `later` overrides equal names.
std::vector<Aux> merged(std::vector<Aux> earlier, const std::vector<Aux>& later);

}  // namespace tunesmith::attention
