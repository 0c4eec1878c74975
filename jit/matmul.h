#pragma once
// Matrix products from a library: problem -> prepared product -> launches. Implementations: jit/cuda/cublas_lt.h and
// jit/host/matmul.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tunesmith/types.h"

namespace tunesmith {

/// Factors of a product that the host knows.
struct MatmulFactors {
  float alpha = 1, beta = 0;
  bool operator==(const MatmulFactors&) const = default;
};

/// c = alpha * A B + beta * c [+ bias] with A (m, k), B (k, n), c (m, n), all row-major, accumulated in float32 and rounded
/// once to out_dtype. If beta is 0, c is not read.
struct MatmulProblem {
  std::int64_t m = 1, n = 1, k = 1;  ///< each >= 1
  bool transpose_a = false;          ///< array a stores A transposed: (k, m)
  bool transpose_b = false;          ///< array b stores B transposed: (n, k)
  std::int64_t a_row_stride = 1;     ///< elements between rows of the array a
  std::int64_t b_row_stride = 1;     ///< the same for b
  std::int64_t c_row_stride = 1;     ///< the same for c
  DType dtype = DType::f32;          ///< of a and b: f32, f16 or bf16
  DType out_dtype = DType::f32;      ///< of c: the same as `dtype`, or f32
  bool bias = false;                 ///< adds a vector (n) of out_dtype to every row
  /// alpha and beta. Without a value, they are in device memory (MatmulArrays).
  std::optional<MatmulFactors> factors;
  std::size_t workspace_bytes = 0;  ///< that an algorithm may use; see MatmulLibrary::workspace_bytes()
  /// Alignment of the addresses in bytes: a power of two, at most 16.
  std::int64_t a_alignment = 16, b_alignment = 16, c_alignment = 16, bias_alignment = 16;

  /// Describes the product for errors: "4096x1024 = A (4096x512) B^T (512x1024), bf16 to f32", with the shapes of A and B.
  std::string text() const {
    const auto shape = [](std::int64_t rows, std::int64_t cols) {
      return std::to_string(rows) + "x" + std::to_string(cols);
    };
    return shape(m, n) + " = A" + (transpose_a ? "^T" : "") + " (" + shape(m, k) + ") B" + (transpose_b ? "^T" : "") + " (" +
           shape(k, n) + ")" + (bias ? " + bias, " : ", ") + std::string(name(dtype)) + " to " +
           std::string(name(out_dtype));
  }
};

/// Device addresses of one product. alpha and beta are float32 scalars in device memory, or nullptr if the problem has
/// factors.
struct MatmulArrays {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const float* alpha = nullptr;
  const float* beta = nullptr;
  void* workspace = nullptr;   ///< MatmulProblem::workspace_bytes bytes, 256-byte aligned; in use until the product is done
  const void* bias = nullptr;  ///< (n), if the product has a bias
};

/// A product with a chosen algorithm. Launching it does not allocate. Thread-safe. The result is bitwise reproducible on the
/// same device and library.
class PreparedMatmul {
 public:
  virtual ~PreparedMatmul() = default;
  /// Launches the product. Asynchronous on CUDA, synchronous on the host. Throws Error(device_failed).
  virtual void enqueue(const MatmulArrays& arrays, Stream stream) const = 0;
};

/// Prepares matrix products. Thread-safe; must outlive the products it prepared.
class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  /// Returns the product with at most `most` (>= 1) different algorithms, those that the library expects to be fast first:
  /// the same list for the same library, device and arguments. Throws Error(unsupported) if the library has none for this
  /// product on this device.
  virtual std::vector<std::unique_ptr<PreparedMatmul>> prepare(const MatmulProblem& problem, int most) = 0;
  /// Returns the product with the algorithm that the library prefers. Throws the same.
  std::unique_ptr<PreparedMatmul> prepare(const MatmulProblem& problem) { return std::move(prepare(problem, 1).front()); }
  /// Returns the workspace beyond which products do not become faster.
  virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Returns the library's name and version: "cublasLt 13.0.2" or "host".
  virtual std::string identity() const = 0;
};

}  // namespace tunesmith
