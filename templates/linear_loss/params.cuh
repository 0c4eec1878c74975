// Parameters of the kernels of the linear loss. The host includes this file, too, and fills them.
#pragma once

#include "matmul/wgmma_params.cuh"

namespace tunesmith {

/// The only argument of all kernels. The product computes a chunk's logits from a (hidden) and b (weight); its c is
/// `exponentials`. Offsets `..._at` are those of arrays in the workspace.
struct LinearLossParams {
  MatmulWgmmaParams matmul;
  const void* targets;  ///< (tokens)
  const float* dloss;   ///< (1) or (tokens); nullptr: 1
  float* loss;          ///< (tokens)
  float* lse;           ///< (tokens)
  float* z_loss;        ///< (tokens), with a z term
  float* nll;           ///< (tokens), or nullptr
  float* entropy;       ///< (tokens), or nullptr
  float* row_factors;   ///< (tokens)
  void* scaled_hidden;  ///< (tokens, hidden_size)
  unsigned char* workspace;
  int64 origins_at;        ///< float (tokens): what is subtracted from a token's logits before exponentiation
  int64 target_logits_at;  ///< float (tokens)
  int64 partials_at;       ///< LinearLossPartial (tokens, tiles)
  int64 weighted_at;       ///< float (tokens, tiles), with entropy: sums of exponentials times their logarithms
  int64 repeats_at;        ///< int (groups + 1): whether the product of these tokens is repeated with other origins; any
  int64 ignore_index, vocab_start, vocab_size;
  int tiles;         ///< of the product, along the vocabulary
  int tile_columns;  ///< of the product
  int group_rows;    ///< tokens of a group: rows of a cluster's tile
  int groups;
  float scale, softcap, inverse_softcap;
  float z_factor;
};

/// What a tile of the product has of a token.
struct LinearLossPartial {
  float sum;      ///< of the exponentials of the other classes than the target
  float largest;  ///< logit of any class
};

/// The only argument of the kernel of the gradient. The product's c is `dlogits`.
struct LinearLossBackwardParams {
  MatmulWgmmaParams matmul;
  const void* targets;    ///< (tokens)
  const float* lse;       ///< (tokens)
  const float* entropy;   ///< (tokens), with dentropy
  const float* dloss;     ///< (1) or (tokens); nullptr: 1
  const float* dlse;      ///< (tokens), or nullptr
  const float* dentropy;  ///< (tokens), or nullptr
  int64 ignore_index, vocab_start, vocab_size;
  float scale, softcap, inverse_softcap;
  float z_factor;
};

}  // namespace tunesmith
