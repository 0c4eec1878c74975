#pragma once
// Matrix products on the CPU for the host executor: plain loops for small sizes.

#include "jit/matmul.h"

namespace tunesmith {

/// Computes products in float32, summed in the order of k.
class HostMatmul final : public MatmulLibrary {
 public:
  using MatmulLibrary::prepare;
  /// Returns one product: there is one algorithm.
  std::vector<std::unique_ptr<PreparedMatmul>> prepare(const MatmulProblem& problem, int most) override;
  std::size_t workspace_bytes() const noexcept override { return 0; }
  std::string identity() const override { return "host"; }
};

}  // namespace tunesmith
