#pragma once
// The chunks of tokens of linear cross-entropy, and the layout of its workspace. Internal.

#include <cstddef>
#include <cstdint>

#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith {

/// Sizes of the chunks and offsets in the workspace, in bytes and aligned to 256.
struct LinearChunks {
  std::int64_t chunk_tokens = 1;  ///< >= 1
  std::int64_t chunks = 0;        ///< 0 without tokens
  std::int64_t tail_tokens = 0;   ///< tokens of the last chunk if it has fewer, otherwise 0
  std::int64_t row_stride = 1;    ///< of logits and dlogits in elements; every row starts at a cache line

  std::size_t divisor = 0, gradient_scale = 0;  ///< f32 (1) each
  std::size_t factor = 0;                       ///< f32 (1), used with dlse
  std::size_t scaled_weight = 0;                ///< f32 (vocab_size), where has_scaled_weight()
  std::size_t losses = 0, z_losses = 0;         ///< f32 (tokens) each, for mean and sum
  std::size_t dloss = 0, dlse = 0;              ///< f32 (1) or (tokens), and (tokens): divided by factor, with dlse
  std::size_t lse = 0;                          ///< f32 (chunk_tokens), used if the caller does not request lse
  std::size_t row_factors = 0;                  ///< f32 (chunk_tokens), if fused
  std::size_t scaled_hidden = 0;                ///< dtype (chunk_tokens, hidden_size), if fused
  std::size_t nll = 0;                          ///< the same for nll, with dlse
  std::size_t matmul = 0, matmul_bytes = 0;     ///< workspace of the matrix products and its size
  std::size_t logits = 0;                       ///< if fused, their exponentials
  std::size_t dlogits = 0;                      ///< the same as logits unless those are f32 and the gradient is not
  std::size_t bytes = 0;                        ///< total size
};

/// Reports whether a launch computes the gradient of the logits.
bool has_gradient(const LinearCrossEntropyProblem& problem) noexcept;

/// Reports whether every token has its own upstream gradient of the loss.
bool has_row_dloss(const LinearCrossEntropyProblem& problem) noexcept;

/// Reports whether the gradient of the logits is not computed in place.
bool has_separate_dlogits(const LinearCrossEntropyProblem& problem) noexcept;

/// Reports whether chunks use class weights scaled to a mean of 1 over the tokens. A mean divides the z term by the number
/// of tokens and the other terms by the weights of the targets; with scaled weights one divisor serves both.
bool has_scaled_weight(const LinearCrossEntropyProblem& problem) noexcept;

/// Reports whether the gradient of the logits includes the upstream gradient and the divisor of the mean, so that the matrix
/// products have the factor 1. In f16 it would underflow; the products multiply with the factor.
bool scales_dlogits(const LinearCrossEntropyProblem& problem) noexcept;

/// Returns the alignment that a product uses: no access is wider than 16 bytes.
std::int64_t used_alignment(std::int64_t alignment) noexcept;

/// Returns the alignment of a chunk's rows of a matrix (tokens, hidden_size): a chunk starts where the previous one ends.
std::int64_t aligned_rows(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                          std::int64_t of_matrix) noexcept;

/// Computes the chunks. Matrix products get at most `matmul_workspace_bytes`, and at most a sixteenth of memory_bytes.
/// Throws Error(invalid_argument) if a chunk of one token exceeds memory_bytes.
LinearChunks divide(const LinearCrossEntropyProblem& problem, std::size_t matmul_workspace_bytes);

}  // namespace tunesmith
