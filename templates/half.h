#pragma once
// 16-bit floats on the host: conversions and spacing, for inputs, outputs and references.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tunesmith/types.h"

namespace tunesmith {

/// Value of the element at `index` of an array of this dtype.
double read_element(DType dtype, const std::byte* data, std::int64_t index) noexcept;
/// Stores `value`, rounded to nearest even.
void write_element(DType dtype, std::byte* data, std::int64_t index, float value) noexcept;
/// Distance between neighbouring numbers of this dtype around `value` (finite), denormals included.
double spacing(DType dtype, double value) noexcept;

}  // namespace tunesmith
