#pragma once
// The kernels and matrix products of a chunk of linear cross-entropy. Internal.

#include <memory>
#include <optional>

#include "api/linear_cross_entropy/chunks.h"
#include "jit/matmul.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// A product that is summed over the chunks.
struct SummedMatmul {
  std::unique_ptr<PreparedMatmul> first;  ///< of the first chunk
  std::unique_ptr<PreparedMatmul> later;  ///< adds to c; null if beta is in device memory or there are no later chunks

  const PreparedMatmul& of_chunk(bool is_first) const { return is_first || later == nullptr ? *first : *later; }
};

/// The kernels and products of chunks of one size.
struct LinearChunk {
  Plan cross_entropy;                          ///< losses and, without dlse, the gradient of the logits
  std::optional<Plan> cross_entropy_backward;  ///< with dlse: the gradient of the logits
  std::unique_ptr<PreparedMatmul> logits, dhidden;
  SummedMatmul dweight, dbias;
};

/// Prepares chunks of `rows` tokens. `options` apply to cross_entropy. In Mode::tune, matrix products are measured, but for
/// the last, shorter chunk.
LinearChunk prepare_chunk(Engine& engine, MatmulLibrary& matmul, const LinearCrossEntropyProblem& problem,
                          const LinearChunks& chunks, std::int64_t rows, const PrepareOptions& options);

}  // namespace tunesmith
