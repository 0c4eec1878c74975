#pragma once
// The last layer of a language model and its loss, computed in chunks of tokens, so that the logits of all tokens never
// exist: logits = hidden weight^T, cross-entropy, and the gradients of hidden and weight.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tunesmith/cross_entropy.h"
#include "tunesmith/engine.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// With x = softcap(scale * hidden weight^T), row t of x and its lse = log(sum_c exp(x[t,c])), s = label_smoothing, w =
/// class_weight (1 without it) and C = vocab_size:
///   loss[t] = (1 - s) w[target] (lse - x[target]) + s / C sum_c w[c] (lse - x[c]) + z_loss lse^2
/// softcap(v) = cap * tanh(v / cap). Tokens whose target is ignore_index have loss and gradient 0; a target that is no class
/// either gives loss NaN and gradient 0. Products are accumulated in float32 and rounded to their dtype once.
///
/// The work of one chunk: its logits, its losses with the gradient written over the logits, its rows of dhidden, and its
/// part of dweight. (The idea: Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024.) The divisor of
/// a mean enters as the factor of the matrix products and not into the 16-bit gradient of the logits, where f16 would lose
/// most of it.
struct LinearCrossEntropyProblem {
  std::int64_t tokens = 0;                ///< >= 0
  std::int64_t hidden_size = 1;           ///< >= 1
  std::int64_t vocab_size = 1;            ///< >= 1
  DType dtype = DType::bf16;              ///< of hidden, weight and dhidden: f32, f16 or bf16
  DType target_dtype = DType::i64;        ///< i64 or i32
  bool f32_logits = false;                ///< logits in f32 (their gradient in dtype); else in dtype
  bool dhidden = false, dweight = false;  ///< which gradients launch() computes besides the loss
  /// dweight in f32; else in dtype, where each chunk rounds the sum so far once: an error of up to chunks / 2 units in
  /// the last place of the largest partial sum, against 1/2 unit. It makes dweight twice as large for 16-bit dtypes.
  bool f32_dweight = false;

  /// Of the losses of tokens; the mean divides by the sum of w[target] over tokens with a valid target, and is NaN without
  /// any.
  Reduction reduction = Reduction::mean;
  bool dloss = false;  ///< an array holds the upstream gradient, shaped like loss; else it is 1. Needs a gradient

  std::int64_t ignore_index = -100;
  double label_smoothing = 0;  ///< 0 to 1
  double z_loss = 0;           ///< >= 0
  double scale = 1;            ///< > 0
  double softcap = 0;          ///< >= 0; 0: none
  bool class_weight = false;   ///< an array holds a weight for each class
  bool nll = false;            ///< an array receives lse - x[target]
  bool predicted = false;      ///< an array receives the class of the largest logit

  /// Most bytes of scratch memory, from which the chunk's tokens follow. Larger chunks are faster until they hold some 2048
  /// tokens. Default 1 GiB.
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  /// Tokens of a chunk, whatever memory_bytes says; the last chunk may have fewer. Default 0: as memory_bytes allows.
  std::int64_t chunk_tokens = 0;
  /// launch() is given its scratch memory (LinearCrossEntropyArrays::workspace), which a program with a caching allocator
  /// can use for other things in between. Default: the prepared object allocates it, for one stream when it is made and for
  /// each further stream at its first launch there.
  bool caller_workspace = false;

  bool operator==(const LinearCrossEntropyProblem&) const = default;
};

/// Device addresses. Matrices are row-major without gaps and aligned to 16 bytes; the rest to its elements. Outputs overlap
/// with nothing.
struct LinearCrossEntropyArrays {
  const void* hidden = nullptr;         ///< (tokens, hidden_size) dtype
  const void* weight = nullptr;         ///< (vocab_size, hidden_size) dtype
  const void* targets = nullptr;        ///< (tokens) target_dtype
  const float* class_weight = nullptr;  ///< (vocab_size), if the problem says so
  const float* dloss = nullptr;         ///< (1), or (tokens) for Reduction::none; if the problem says so
  float* loss = nullptr;                ///< (1), or (tokens) for Reduction::none
  float* lse = nullptr;                 ///< (tokens); nullptr: not wanted
  float* z_loss = nullptr;              ///< shaped like loss, the z_loss part of it; nullptr: not wanted. Needs z_loss > 0
  float* nll = nullptr;                 ///< (tokens), if the problem says so
  void* predicted = nullptr;            ///< (tokens) target_dtype, if the problem says so
  void* dhidden = nullptr;              ///< (tokens, hidden_size) dtype, if the problem says so
  void* dweight = nullptr;              ///< (vocab_size, hidden_size) dtype or f32, if the problem says so
  void* workspace = nullptr;            ///< workspace_bytes(), aligned to 256, if the problem says caller_workspace
};

/// A problem made ready. Cheap to copy (shared ownership; keeps its engine's device alive, not the engine); immutable and
/// thread-safe. Results repeat bit for bit on the same device, libraries and configuration.
class LinearCrossEntropy {
 public:
  /// Prepares the kernels (as Engine::prepare does, tuning them when the mode says so) and the matrix products: cuBLASLt on
  /// a GPU, found as NVRTC is, plain loops on the host executor. `options` are for the cross-entropy of a chunk. Throws
  /// Error(invalid_argument) for a malformed problem or one whose chunk of a single token exceeds memory_bytes,
  /// Error(not_found) when there is no cuBLASLt, Error(unsupported) when it lacks a product on this device, and what
  /// Engine::prepare does. Not during a stream capture.
  LinearCrossEntropy(Engine& engine, const LinearCrossEntropyProblem& problem, const PrepareOptions& options = {});

  /// Enqueues everything on `stream` and returns: no allocation (but see caller_workspace), no synchronization. May be
  /// captured once it has been launched outside of a capture, because cuBLASLt loads its kernels then. Throws
  /// Error(invalid_argument) for arrays that are null, misaligned, overlapping, or given though the problem does not have
  /// them, Error(device_failed) when the driver or cuBLASLt refuses.
  void launch(const LinearCrossEntropyArrays& arrays, Stream stream = nullptr) const;

  /// Scratch memory of one launch, everything included: at most memory_bytes unless chunk_tokens was given.
  std::size_t workspace_bytes() const noexcept;
  std::int64_t chunk_tokens() const noexcept;
  std::int64_t chunks() const noexcept;
  const LinearCrossEntropyProblem& problem() const noexcept;
  const Plan& cross_entropy() const noexcept;  ///< of a whole chunk

  struct State;

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace tunesmith
