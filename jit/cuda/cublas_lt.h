#pragma once
// Matrix products with cuBLASLt.

#include <memory>
#include <string>

#include "jit/cuda/cublas_lt_library.h"
#include "jit/cuda/device.h"
#include "jit/matmul.h"

namespace tunesmith {

/// Prepares matrix products with cuBLASLt. Thread-safe. Results are deterministic: partial sums are added in float32 in a
/// fixed order. The first launch of a product may load its kernel, so make it before a stream capture begins.
class CublasLt final : public MatmulLibrary {
 public:
  /// Creates a handle in the device's context. Throws the errors of CublasLtLibrary::check().
  CublasLt(std::shared_ptr<const CudaDevice> device, std::shared_ptr<const CublasLtLibrary> library);
  ~CublasLt() override;
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  using MatmulLibrary::prepare;
  /// Returns the product with the algorithms of the library's heuristic.
  std::vector<std::unique_ptr<PreparedMatmul>> prepare(const MatmulProblem& problem, int most) override;
  /// Enough for the partial sums of split-K algorithms of a few hundred tokens by some thousand columns.
  std::size_t workspace_bytes() const noexcept override { return std::size_t{64} << 20; }
  std::string identity() const override { return "cublasLt " + library_->version(); }

 private:
  const std::shared_ptr<const CudaDevice> device_;
  const std::shared_ptr<const CublasLtLibrary> library_;
  cublas_lt::Handle handle_ = nullptr;
};

}  // namespace tunesmith
