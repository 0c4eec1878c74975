// Kernels on the tensor-core primitives, and what must come out of them on any device: one source, one check, for the host
// executor and for a GPU.
#pragma once

#include <string>

#include "jit/compiler.h"
#include "jit/device.h"

namespace tunesmith::test {

/// device/matrix.cuh, flattened as rendering does it, and `text`.
CompileRequest matrix_request(const std::string& text, const Arch& arch);

/// Entries `product_<dtype>` and `product_<dtype>_transposed`: D = A B of 64 x 64 by 64 x 96 elements by four warps, B given
/// as rows of k or of columns; `chained_<dtype>`: O = (A B) C, the product in between rounded to the dtype, as attention
/// has it; `round_trip`: 16 x 16 elements through load_matrix_x4 and store_matrix_x4. Those that the architecture can have.
std::string matrix_kernels(const Arch& arch);

/// Runs all of them: integers come out exactly, random numbers as near to float64 as sums in float are.
void check_matrix_kernels(const Compiler& compiler, Device& device, const Arch& arch);

}  // namespace tunesmith::test
