#pragma once
// How linear + cross-entropy divides its tokens, and what lies where in its scratch memory. Internal.

#include <cstddef>
#include <cstdint>

#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith {

/// Offsets are in bytes from the start of the workspace, each a multiple of 256.
struct LinearChunks {
  std::int64_t chunk_tokens = 1;  ///< >= 1
  std::int64_t chunks = 0;        ///< 0 without tokens
  std::int64_t tail_tokens = 0;   ///< of the last chunk when it has fewer, else 0
  std::int64_t row_stride = 1;    ///< elements between rows of logits and dlogits: every row begins on a cache line

  std::size_t divisor = 0, gradient_scale = 0;  ///< f32 (1) each
  std::size_t losses = 0, z_losses = 0;         ///< f32 (tokens) each, for mean and sum
  std::size_t lse = 0;                          ///< f32 (chunk_tokens), for callers that do not want it
  std::size_t matmul = 0;                       ///< of the matrix products
  std::size_t logits = 0;
  std::size_t dlogits = 0;  ///< the same as logits unless those are f32 and the gradient is not
  std::size_t bytes = 0;    ///< of all
};

/// Whether the gradient of the logits has memory of its own.
bool has_separate_dlogits(const LinearCrossEntropyProblem& problem) noexcept;

/// Throws Error(invalid_argument) when not even one token's logits fit into memory_bytes.
LinearChunks divide(const LinearCrossEntropyProblem& problem, std::size_t matmul_workspace_bytes);

}  // namespace tunesmith
