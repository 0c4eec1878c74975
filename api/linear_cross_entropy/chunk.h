#pragma once
// The kernels and matrix products of a chunk of linear cross-entropy. Internal.

#include <memory>
#include <optional>

#include "api/linear_cross_entropy/chunks.h"
#include "jit/matmul.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// The kernels and products of chunks of one size.
struct LinearChunk {
  Plan cross_entropy;                          ///< losses and, without dlse, the gradient of the logits
  std::optional<Plan> cross_entropy_backward;  ///< with dlse: the gradient of the logits
  std::unique_ptr<PreparedMatmul> logits, dhidden, dweight, dbias;
};

/// Prepares chunks of `rows` tokens. `options` apply to cross_entropy.
LinearChunk prepare_chunk(Engine& engine, MatmulLibrary& matmul, const LinearCrossEntropyProblem& problem,
                          const LinearChunks& chunks, std::int64_t rows, const PrepareOptions& options);

}  // namespace tunesmith
