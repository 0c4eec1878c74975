#pragma once
// Conversions and spacing of array elements on the host, for inputs, outputs and references.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tunesmith/types.h"

namespace tunesmith {

/// Returns the value of the element at `index` of an array of this dtype.
double read_element(DType dtype, const std::byte* data, std::int64_t index) noexcept;
/// Does the same for u8, i8, i32 and i64, exactly.
std::int64_t read_integer(DType dtype, const std::byte* data, std::int64_t index) noexcept;
void write_integer(DType dtype, std::byte* data, std::int64_t index, std::int64_t value) noexcept;
/// Stores `value` rounded to nearest even, to float32 first if the dtype is not f64. Overflow gives infinity in f32, f16 and
/// bf16, and the largest number of the sign in other dtypes; NaN gives 0 in integers.
void write_element(DType dtype, std::byte* data, std::int64_t index, double value) noexcept;
/// Returns the largest finite number of a float type of 16 bits or more.
constexpr double largest_number(DType dtype) noexcept {
  if (dtype == DType::f64) return 0x1.fffffffffffffp1023;
  return dtype == DType::f16 ? 65504 : dtype == DType::bf16 ? 0x1.fep127 : 0x1.fffffep127;
}
/// Returns the distance between neighbouring numbers of this dtype around a finite `value`, denormals included.
double spacing(DType dtype, double value) noexcept;
/// Returns how far `found` is from `expected` beyond `slack`, in units of spacing(dtype, expected). NaN is 0 from NaN, and
/// infinity is 0 from numbers that are rounded to it; both are infinitely far from others.
double units_apart(DType dtype, double found, double expected, double slack = 0) noexcept;

}  // namespace tunesmith
