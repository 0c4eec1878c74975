#pragma once
// What the fields of operations over rows have in common.

#include <cstdint>
#include <limits>

#include "tunesmith/describe.h"

namespace tunesmith {

inline constexpr std::int64_t most_cols = std::numeric_limits<std::int32_t>::max();

/// A row stride of an output: rows do not overlap.
constexpr FieldFacts output_stride(std::string_view meaning, std::int64_t cols) {
  FieldFacts facts;
  facts.meaning = meaning;
  facts.range = {cols};
  facts.follows = {"cols", cols};
  return facts;
}

/// A row stride of an input: 0 reads the same row again.
constexpr FieldFacts input_stride(std::string_view meaning, std::int64_t cols) {
  FieldFacts facts = output_stride(meaning, cols);
  facts.zero_too = true;
  return facts;
}

}  // namespace tunesmith
