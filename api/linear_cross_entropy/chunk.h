#pragma once
// A chunk of tokens of linear cross-entropy: its prepared kernels and matrix products, and their launch. Internal.

#include <memory>
#include <utility>

#include "api/linear_cross_entropy/chunks.h"
#include "jit/matmul.h"
#include "tunesmith/engine.h"

namespace tunesmith {

/// What a launch passes to its chunks.
struct LinearLaunch {
  const LinearCrossEntropyArrays& arrays;
  const float* scale;       ///< factor of all gradients (1)
  const float *zero, *one;  ///< (1)
  const std::byte* ones;    ///< (chunk_tokens), with dbias
  std::byte* workspace;
  Stream stream;
};

/// Immutable and thread-safe.
class LinearChunk {
 public:
  virtual ~LinearChunk() = default;
  LinearChunk(const LinearChunk&) = delete;
  LinearChunk& operator=(const LinearChunk&) = delete;

  /// Launches the chunk that begins with token `first`.
  virtual void launch(const LinearLaunch& launch, std::int64_t first) const = 0;
  /// Returns the kernels of the losses.
  const Plan& loss() const noexcept { return loss_; }

 protected:
  LinearChunk(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, Plan loss)
      : problem_(problem), chunks_(chunks), loss_(std::move(loss)) {}
  const LinearCrossEntropyProblem& problem() const noexcept { return problem_; }
  const LinearChunks& chunks() const noexcept { return chunks_; }

 private:
  const LinearCrossEntropyProblem problem_;
  const LinearChunks chunks_;
  const Plan loss_;
};

/// Prepare chunks of `rows` tokens: one stores the logits of a chunk, the other one does not (templates/linear_loss).
/// `options` apply to the losses. In Mode::tune, matrix products are measured.
std::unique_ptr<const LinearChunk> prepare_stored_chunk(Engine& engine, MatmulLibrary& matmul,
                                                        const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                                                        std::int64_t rows, const PrepareOptions& options);
std::unique_ptr<const LinearChunk> prepare_fused_chunk(Engine& engine, const LinearCrossEntropyProblem& problem,
                                                       const LinearChunks& chunks, std::int64_t rows,
                                                       const PrepareOptions& options);

/// Returns the address of a chunk's rows; nullptr if the array is null.
template <typename T>
T* part(T* array, std::int64_t elements, std::int64_t element_bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return array == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + elements * element_bytes);
}

}  // namespace tunesmith
