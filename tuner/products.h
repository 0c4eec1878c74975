#pragma once
// The algorithm of a matrix library's product: recorded, measured, or the library's own preference.

#include <memory>
#include <string_view>

#include "cache/cache.h"
#include "jit/device.h"
#include "jit/matmul.h"

namespace tunesmith {

/// The operation's name in tuning records of library products. Their template digest is the library's identity, and their
/// configuration the number of an algorithm in the library's list.
inline constexpr std::string_view library_matmul = "library_matmul";

struct ProductOptions {
  bool reads_records = true;
  double measure_s = 0;  ///< wall time for measuring a product without a record; 0: none is measured
};

/// Returns the product with the recorded algorithm. Without a record, checks the library's algorithms against float64 on
/// random arrays of the tuner's own, times the correct ones interleaved, stores the record and returns the fastest; the
/// library's preference stays unless another one beats it by more than the noise. If nothing is to be measured, or the
/// arrays do not fit into memory, returns the library's preference. Throws Error(unsupported) if the library lacks the
/// product, and Error(verification_failed) if all its algorithms are wrong.
std::unique_ptr<PreparedMatmul> choose_product(MatmulLibrary& library, const MatmulProblem& problem, Device& device,
                                               Cache& cache, const ProductOptions& options);

}  // namespace tunesmith
