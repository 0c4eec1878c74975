#pragma once
// Reading and checking the fields that operations over rows share. Internal to templates/.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "templates/config_values.h"
#include "templates/op.h"

namespace tunesmith::row {

inline constexpr std::int64_t max_cols = 2147483647;

/// The field, or `fallback` when absent. Throws Error(invalid_argument) naming the field, its value and what is allowed.
std::int64_t integer_between(const Problem& problem, std::string_view field, std::int64_t fallback, std::int64_t least,
                             std::int64_t most);
/// The same of a real number.
double real_between(const Problem& problem, std::string_view field, double fallback, double least, double most);
/// Position of the field's word among those allowed, or `fallback`. Throws as above.
std::size_t word_at(const Problem& problem, std::string_view field, const Words& allowed, std::size_t fallback);
/// Bytes that an address is a multiple of, at most 16 because no access is wider.
std::int64_t alignment_field(const Problem& problem, std::string_view field, DType dtype);
DType float_dtype_field(const Problem& problem, std::string_view field, DType fallback);
/// Throws Error(invalid_argument) when rows so far apart would span more than any memory.
void check_extent(std::string_view array, std::int64_t rows, std::int64_t row_stride, DType dtype);
/// Throws Error(invalid_argument) naming a field that is none of `known`, and `required` ones that are missing.
void check_names(const Problem& problem, const std::vector<FieldInfo>& known, const std::vector<std::string_view>& required);

}  // namespace tunesmith::row
