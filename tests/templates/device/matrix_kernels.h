// Kernels that use the tensor-core primitives, and their expected results, for the host executor and for a GPU.
#pragma once

#include <string>

#include "jit/compiler.h"
#include "jit/device.h"

namespace tunesmith::test {

/// Returns a request for device/matrix.cuh, flattened as by rendering, followed by `text`.
CompileRequest matrix_request(const std::string& text, const Arch& arch);

/// Returns the source of all kernels that the architecture supports. `product_<dtype>` and `product_<dtype>_transposed`
/// compute D = A B (64 x 64 by 64 x 96) with four warps and B stored by rows or by columns. `chained_<dtype>` computes
/// O = (A B) C and rounds A B to the dtype, like attention. `round_trip` copies 16 x 16 elements with load_matrix_x4 and
/// store_matrix_x4.
std::string matrix_kernels(const Arch& arch);

/// Runs all kernels. Products of integers must be exact; others must agree with float64 within the error of float sums.
void check_matrix_kernels(const Compiler& compiler, Device& device, const Arch& arch);

}  // namespace tunesmith::test
