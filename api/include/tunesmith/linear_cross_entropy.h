#pragma once
// Fused linear layer and cross-entropy loss of a language model: logits = hidden weight^T + bias, the loss, and the
// gradients of hidden, weight and bias. Processes tokens in chunks, so that the logits of all tokens are never stored.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tunesmith/cross_entropy.h"
#include "tunesmith/engine.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// With x = softcap(scale * (hidden weight^T + bias)), row t of x and its lse = log(sum_c exp(x[t,c])), s = label_smoothing,
/// w = class_weight (1 without it) and C = vocab_size:
///   loss[t] = (1 - s) w[target] (lse - x[target]) + s / C sum_c w[c] (lse - x[c]) + z_loss lse^2
/// with softcap(v) = cap * tanh(v / cap). A token whose target is ignore_index has loss and gradient 0. A target out of
/// range gives loss NaN and gradient 0. Products are accumulated in float32 and rounded once.
///
/// Each chunk computes its logits, its losses and the gradient of the logits in place, its rows of dhidden, and its partial
/// sum of dweight, as in Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024. In f16, the divisor of
/// the mean is applied in the matrix products and not to the gradient of the logits, where it would underflow.
/// With dlse, the losses and the gradient of a chunk take two passes over its logits.
struct LinearCrossEntropyProblem {
  std::int64_t tokens = 0;                ///< >= 0
  std::int64_t hidden_size = 1;           ///< >= 1
  std::int64_t vocab_size = 1;            ///< >= 1
  DType dtype = DType::bf16;              ///< of hidden, weight and dhidden: f32, f16 or bf16
  DType target_dtype = DType::i64;        ///< i64 or i32
  bool f32_logits = false;                ///< store logits in f32 (their gradient in dtype) instead of dtype
  bool bias = false;                      ///< read a bias per class from an array
  bool dhidden = false, dweight = false;  ///< gradients that launch() computes in addition to the loss
  bool dbias = false;                     ///< the same; requires bias
  /// Stores dweight and dbias in f32 instead of dtype, which takes twice the memory for 16-bit dtypes. In dtype, each chunk
  /// rounds the partial sum once: the error is up to chunks / 2 units in the last place of the largest partial sum, instead
  /// of 1/2 unit.
  bool f32_dweight = false;

  /// Reduction of the loss over tokens. The mean divides the first two terms by the sum of w[target] over tokens with a
  /// valid target, and the z term by the number of these tokens; without any it is NaN.
  Reduction reduction = Reduction::mean;
  bool dloss = false;  ///< read the upstream gradient, shaped like loss, from an array instead of using 1
  /// Read the gradient of the final result with respect to lse from an array and add its share to the gradients, also for
  /// ignored tokens.
  bool dlse = false;

  std::int64_t ignore_index = -100;
  double label_smoothing = 0;  ///< 0 to 1
  double z_loss = 0;           ///< >= 0
  double scale = 1;            ///< > 0
  double softcap = 0;          ///< >= 0; 0: none
  bool class_weight = false;   ///< read a weight per class from an array
  bool nll = false;            ///< write lse - x[target] to an array
  bool argmax = false;         ///< write the argmax of the logits to an array

  /// Computes exponentials and their sums in the product of the logits, which are never stored or rounded to 16 bits, with
  /// matrix products of Tunesmith's own: fast on sm_90 with 16-byte aligned rows, slow elsewhere. Not for f16, whose range
  /// exponentials exceed, and not yet for f32_logits, bias, class_weight, argmax and label_smoothing. With dlse, the product
  /// of the logits is computed twice.
  bool fused = false;

  /// Promised alignment of hidden in bytes: a power of two, element size to 16. Below 16, matrix products are slower.
  std::int64_t hidden_alignment = 16;
  std::int64_t weight_alignment = 16;   ///< the same for weight
  std::int64_t bias_alignment = 16;     ///< the same for bias
  std::int64_t dhidden_alignment = 16;  ///< the same for dhidden
  std::int64_t dweight_alignment = 16;  ///< the same for dweight
  /// Maximum workspace in bytes, which determines the tokens per chunk. Every chunk reads weight and dweight, so few chunks
  /// are faster. Default 1.1 GiB: 4096 tokens of a vocabulary of 131072 in 16 bits.
  std::int64_t memory_bytes = std::int64_t{1126} << 20;
  /// Tokens per chunk, regardless of memory_bytes; the last chunk may have fewer. Default 0: determined by memory_bytes.
  std::int64_t chunk_tokens = 0;
  /// The caller passes the workspace to launch() (LinearCrossEntropyArrays::workspace), so that a caching allocator can
  /// reuse the memory between launches. Default false: the object allocates a workspace for one stream when it is
  /// constructed, and for each further stream at its first launch there.
  bool caller_workspace = false;

  bool operator==(const LinearCrossEntropyProblem&) const = default;
};

/// Device addresses. Matrices are contiguous, row-major and aligned as the problem promises; other arrays are aligned to
/// their elements. Outputs must not overlap with other arrays.
struct LinearCrossEntropyArrays {
  const void* hidden = nullptr;         ///< (tokens, hidden_size) dtype
  const void* weight = nullptr;         ///< (vocab_size, hidden_size) dtype
  const void* targets = nullptr;        ///< (tokens) target_dtype
  const float* class_weight = nullptr;  ///< (vocab_size), if the problem has class_weight
  const float* dloss = nullptr;         ///< (1), or (tokens) for Reduction::none; if the problem has dloss
  const void* bias = nullptr;           ///< (vocab_size) dtype, or f32 with f32_logits; if the problem has bias
  const float* dlse = nullptr;          ///< (tokens), if the problem has dlse
  float* loss = nullptr;                ///< (1), or (tokens) for Reduction::none
  float* lse = nullptr;                 ///< (tokens); optional
  float* z_loss = nullptr;              ///< the z_loss term of the loss, shaped like loss; optional, requires z_loss > 0
  float* nll = nullptr;                 ///< (tokens), if the problem has nll
  void* argmax = nullptr;               ///< (tokens) target_dtype, if the problem has argmax
  void* dhidden = nullptr;              ///< (tokens, hidden_size) dtype, if the problem has dhidden
  void* dweight = nullptr;              ///< (vocab_size, hidden_size) dtype or f32, if the problem has dweight
  void* dbias = nullptr;                ///< (vocab_size) dtype of dweight, if the problem has dbias
  void* workspace = nullptr;            ///< workspace_bytes() bytes, aligned to 256, if the problem has caller_workspace
};

/// A prepared problem. Cheap to copy (shared ownership; keeps the engine's device alive, but not the engine). Immutable and
/// thread-safe. Results are bitwise reproducible on the same device with the same libraries and configuration.
class LinearCrossEntropy {
 public:
  /// Prepares the kernels like Engine::prepare, which tunes them in Mode::tune, and the matrix products: cuBLASLt on a GPU
  /// (found in the same places as NVRTC), plain loops on the host executor. In Mode::tune, the library's algorithms are
  /// checked and timed, and the fastest are recorded. `options` apply to the cross-entropy of a chunk.
  /// Must not be called during a stream capture. Throws Error(invalid_argument) for an invalid problem or if a chunk of one
  /// token exceeds memory_bytes, Error(not_found) if cuBLASLt is not found, Error(unsupported) if it lacks a product on this
  /// device, and the errors of Engine::prepare.
  LinearCrossEntropy(Engine& engine, const LinearCrossEntropyProblem& problem, const PrepareOptions& options = {});

  /// Enqueues all work on `stream` and returns, without synchronization and without allocation (but see caller_workspace).
  /// Can be captured after a first launch outside of a capture, in which cuBLASLt loads its kernels. Throws
  /// Error(invalid_argument) for arrays that are null, misaligned, overlapping or not part of the problem, and
  /// Error(device_failed) if the driver or cuBLASLt reports an error.
  void launch(const LinearCrossEntropyArrays& arrays, Stream stream = nullptr) const;

  /// Returns the total workspace of one launch: at most memory_bytes unless chunk_tokens is set.
  std::size_t workspace_bytes() const noexcept;
  std::int64_t chunk_tokens() const noexcept;
  std::int64_t chunks() const noexcept;
  const LinearCrossEntropyProblem& problem() const noexcept;
  const Plan& cross_entropy() const noexcept;  ///< the kernels of a whole chunk

  struct State;

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace tunesmith
