#pragma once
// Inputs and the float64 reference of the softmax family. Internal to templates/softmax.

#include "templates/op.h"
#include "templates/row/shape.h"

namespace tunesmith {

/// Returns the device type that computes results of this dtype.
constexpr std::string_view arithmetic_of(DType output) noexcept {
  if (output == DType::f64) return "DoubleArithmetic";
  return output == DType::f32 ? "PreciseArithmetic" : "FastArithmetic";
}

/// Implements ParsedProblem::fill_inputs. Of `shape`, rows count every position, and strides are not used.
void fill_softmax_inputs(const row::Shape& shape, std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays);
/// Implements ParsedProblem::check.
CheckResult check_softmax(const row::Shape& shape, std::span<const HostArray> arrays, std::int64_t max_rows);

}  // namespace tunesmith
