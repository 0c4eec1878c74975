#pragma once
// Field properties that operations over rows share.

#include <cstdint>
#include <limits>

#include "tunesmith/describe.h"

namespace tunesmith {

inline constexpr std::int64_t most_cols = std::numeric_limits<std::int32_t>::max();

/// Row stride of an output: rows must not overlap.
constexpr FieldFacts output_stride(std::string_view meaning, std::int64_t cols) {
  FieldFacts facts;
  facts.meaning = meaning;
  facts.range = {cols};
  facts.follows = {"cols", cols};
  return facts;
}

/// Row stride of an input: 0 repeats one row.
constexpr FieldFacts input_stride(std::string_view meaning, std::int64_t cols) {
  FieldFacts facts = output_stride(meaning, cols);
  facts.zero_too = true;
  return facts;
}

}  // namespace tunesmith
