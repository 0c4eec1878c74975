#pragma once
// Elements of arrays on the host: conversions and spacing, for inputs, outputs and references.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tunesmith/types.h"

namespace tunesmith {

/// Value of the element at `index` of an array of this dtype.
double read_element(DType dtype, const std::byte* data, std::int64_t index) noexcept;
/// The same for u8, i32 and i64, exact.
std::int64_t read_integer(DType dtype, const std::byte* data, std::int64_t index) noexcept;
void write_integer(DType dtype, std::byte* data, std::int64_t index, std::int64_t value) noexcept;
/// Stores `value` as one of the float dtypes, rounded to nearest even.
void write_element(DType dtype, std::byte* data, std::int64_t index, float value) noexcept;
/// Distance between neighbouring numbers of this float dtype around `value` (finite), denormals included.
double spacing(DType dtype, double value) noexcept;

}  // namespace tunesmith
