#pragma once
// Matrix products on the CPU, for the host executor: plain loops, for small sizes.

#include "jit/matmul.h"

namespace tunesmith {

/// Products in float32, summed one after the other along k.
class HostMatmul final : public MatmulLibrary {
 public:
  std::unique_ptr<PreparedMatmul> prepare(const MatmulProblem& problem) override;
  std::size_t workspace_bytes() const noexcept override { return 0; }
  std::string identity() const override { return "host"; }
};

}  // namespace tunesmith
