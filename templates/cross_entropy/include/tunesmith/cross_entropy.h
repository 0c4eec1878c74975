#pragma once
// Cross-entropy of rows of logits as typed problems: the loss, its gradient in the same pass or from lse, and both halves of
// a loss whose vocabulary is spread over devices.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/description.h"
#include "tunesmith/row_fields.h"

namespace tunesmith {

/// What becomes of the rows' losses.
enum class Reduction : std::uint8_t {
  /// Their sum divided by the sum of the weights of their targets; the z term, which has no weight, is divided by the number
  /// of rows that are not ignored. NaN if all rows are ignored.
  mean,
  sum,   ///< 0 when there is none
  none,  ///< one loss for each row
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Reduction>{"mean", "sum", "none"};

/// Where the gradient goes that the forward operation writes in the same pass.
enum class Gradient : std::uint8_t {
  none,      ///< it writes none
  separate,  ///< to an array of its own
  in_place,  ///< over the logits: equal dtypes and strides
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Gradient>{"none", "separate", "in_place"};

/// The gradient of what follows with respect to the loss, as a float32 array.
enum class Upstream : std::uint8_t {
  none,    ///< 1 for every loss
  scalar,  ///< one element, the same for every loss
  row,     ///< one element for each row, which takes Reduction::none
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Upstream>{"none", "scalar", "row"};

/// Addresses in device memory, in launch order. An array that may be left out switches its option on when it is given.
struct CrossEntropyArrays {
  const void* logits = nullptr;
  const void* targets = nullptr;  ///< (rows), of the target dtype
  const void* weight = nullptr;   ///< float32 (cols), or left out
  const void* dloss = nullptr;  ///< float32 (rows) for Reduction::none unless the problem says scalar, else (1); or left out
  void* loss = nullptr;         ///< float32 (rows) for Reduction::none, else (1)
  void* lse = nullptr;          ///< float32 (rows): what the backward operation needs
  void* z_loss = nullptr;       ///< float32, as loss; for a z_loss above 0 and for no other
  void* nll = nullptr;          ///< float32 (rows), or left out
  void* argmax = nullptr;       ///< (rows), of the target dtype, or left out
  void* num_correct = nullptr;  ///< int64 (1), or left out
  void* bad_targets =
      nullptr;              ///< int64 (2): rows whose target is no class and not ignored, and the first or -1; or left out
  void* dlogits = nullptr;  ///< (rows, cols), may be logits; or left out
};

/// Addresses of cross_entropy_backward, in launch order.
struct CrossEntropyBackwardArrays {
  const void* logits = nullptr;
  const void* targets = nullptr;  ///< (rows), of the target dtype
  const void* lse = nullptr;      ///< float32 (rows), as the forward operation or the combination of shards wrote it
  const void* dloss = nullptr;    ///< float32 (rows) for Reduction::none unless the problem says scalar, else (1)
  const void* nll = nullptr;      ///< float32 (rows), as written there, or left out
  const void* weight = nullptr;   ///< float32 (cols), or left out
  void* dlogits = nullptr;        ///< (rows, cols), may be logits
};

/// Addresses of cross_entropy_shard, in launch order.
struct CrossEntropyShardArrays {
  const void* logits = nullptr;
  const void* targets = nullptr;  ///< (rows), of the target dtype
  const void* weight = nullptr;   ///< float32 (cols), of the classes at hand, or left out
  void* partials = nullptr;       ///< float32 (rows, 8), aligned to 16 bytes
};

/// Addresses of cross_entropy_combine, in launch order; they mean
/// what they mean in CrossEntropyArrays.
struct CrossEntropyCombineArrays {
  const void* partials = nullptr;
  const void* targets = nullptr;
  void* loss = nullptr;
  void* lse = nullptr;
  void* z_loss = nullptr;
  void* nll = nullptr;
  void* argmax = nullptr;
  void* num_correct = nullptr;
  void* bad_targets = nullptr;
};

/// For every row r with target t = targets[r], C = cols classes, x = softcap(scale * logits[r,:]), weights w (1 without any)
/// and s = label_smoothing:
///   lse[r]  = log(sum_c exp(x_c))
///   nll[r]  = lse[r] - x_t
///   loss[r] = (1 - s) * w_t * nll[r] + s / C * sum_c w_c * (lse[r] - x_c) + z_loss * lse[r]^2
/// which `reduction` then reduces, and, when a gradient is asked for, in the same read of the logits,
///   dlogits[r,:] = dloss * d(reduced loss) / d(logits[r,:]).
/// These are the formulas of PyTorch's cross_entropy with class indices, to which z_loss, scale and softcap are added. The
/// mean divides the first two terms by the sum of the target weights whatever the smoothing, as in PyTorch, and the z term
/// by the number of rows that are not ignored.
///
/// Arrays (CrossEntropyArrays): logits (rows, cols) and dlogits of f32, f16 or bf16, targets (rows) int64 or int32, losses,
/// lse and weights float32. Computed in float32 with an error-compensated sum over rows, whatever the dtypes. A row of which
/// the model is sure keeps its digits: the target's exponential stays out of the sum, so that a loss of 1e-10 is not 0 and
/// its gradient p - 1 has full relative precision.
///
/// - A row whose target is ignore_index is ignored: loss, z_loss, nll and gradient are exactly 0, even where its
///   logits are NaN. Its lse and predicted class are those of any row.
/// - A target that is neither a class nor ignore_index is never used as an index: loss and nll of its row are NaN, and so is
///   a reduced loss; its gradient is 0. (PyTorch stops the process's CUDA context with an assertion.) check_targets names
///   it.
/// - A row that holds NaN or +inf, or nothing but -inf, has a loss and a gradient of NaN, as PyTorch has; lse is the largest
///   logit. Single logits of -inf are masked classes: probability 0, gradient 0. A masked target has a loss of +inf, and so
///   has, with label smoothing, a row with any masked class, whose gradient then is that of smoothing.
///
/// After Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867). z_loss: Chowdhery et
/// al., "PaLM", 2022 (arXiv:2204.02311). softcap: Gemma Team, "Gemma 2", 2024 (arXiv:2408.00118).
struct CrossEntropyProblem {
  using Arrays = CrossEntropyArrays;

  std::int64_t rows = 0;                             ///< tokens, >= 0
  std::int64_t cols = 1;                             ///< classes, >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;                          ///< of logits: f32, f16 or bf16
  DType target_dtype = DType::i64;                   ///< of targets and predicted: i64 or i32
  std::optional<DType> out_dtype{};                  ///< of dlogits: f32, f16 or bf16; absent: dtype
  std::optional<std::int64_t> logits_row_stride{};   ///< elements between rows of logits; absent: cols, 0: one row for all
  std::optional<std::int64_t> dlogits_row_stride{};  ///< elements between rows of dlogits; absent: cols
  /// Bytes logits' address is promised to be a multiple of: a power of two, element size to 16.
  std::int64_t logits_alignment = 16;
  std::int64_t dlogits_alignment = 16;    ///< the same for dlogits
  Gradient gradient = Gradient::none;     ///< whether dlogits are written, and where
  std::int64_t ignore_index = -100;       ///< target of rows that are ignored; may be a class
  double label_smoothing = 0;             ///< share of the loss that all classes have alike, 0 to 1
  double z_loss = 0;                      ///< factor of lse^2, from 0; above 0 the array z_loss gets that part of the loss
  double scale = 1;                       ///< factor of logits, 1e-6 to 1e6
  double softcap = 0;                     ///< logits become softcap * tanh(logits / softcap), -inf stays; 0: they do not
  Reduction reduction = Reduction::mean;  ///< of the rows' losses
  Upstream dloss = Upstream::none;        ///< a gradient known beforehand, e.g. a loss scale; only with a gradient
  bool weight = false;                    ///< classes have weights
  bool nll = false;                       ///< nll is written: what the backward operation wants for confident rows
  bool argmax = false;                    ///< the first class with the largest logit is written for each row (argmax)
  bool num_correct = false;               ///< the number of rows with a target that is their predicted class is written
  bool check_targets = false;             ///< targets that are neither a class nor ignore_index are counted

  static CrossEntropyProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    CrossEntropyProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = dtype;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  bool operator==(const CrossEntropyProblem&) const = default;
};

/// The gradient of CrossEntropyProblem's loss from lse, which the forward operation left, in one read and one write whatever
/// the length of a row. The options that both have must be those of the forward call. With nll, which the forward operation
/// writes when asked, the gradient of a target keeps the digits of p - 1 for rows of which the model is sure; without it
/// they are taken from lse - logit. `reduction` mean divides by the weights of the targets, which it sums up again.
///
/// A shard of a vocabulary takes its own columns, its own dlogits, and the lse and nll of the whole: vocab_start and
/// vocab_size say where it lies. Label smoothing, or the mean, with weights needs the weights of all classes and is refused
/// for a shard: use Reduction::sum and a dloss that is divided already. That divides the z term by the weights, too: with
/// z_loss, multiply the weights by (rows that are not ignored) / (sum of the target weights) and divide dloss by the rows.
struct CrossEntropyBackwardProblem {
  using Arrays = CrossEntropyBackwardArrays;

  std::int64_t rows = 0;                             ///< >= 0
  std::int64_t cols = 1;                             ///< classes at hand, >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;                          ///< of logits: f32, f16 or bf16
  DType target_dtype = DType::i64;                   ///< of targets: i64 or i32
  std::optional<DType> out_dtype{};                  ///< of dlogits: f32, f16 or bf16; absent: dtype
  std::optional<std::int64_t> logits_row_stride{};   ///< elements between rows of logits; absent: cols, 0: one row for all
  std::optional<std::int64_t> dlogits_row_stride{};  ///< elements between rows of dlogits; absent: cols
  std::int64_t logits_alignment = 16;  ///< bytes logits' address is promised to be a multiple of, as for CrossEntropyProblem
  std::int64_t dlogits_alignment = 16;       ///< the same for dlogits
  bool in_place = false;                     ///< dlogits is logits: equal dtypes and strides
  std::int64_t vocab_start = 0;              ///< class of the first column
  std::optional<std::int64_t> vocab_size{};  ///< classes in all shards; absent: vocab_start + cols
  std::int64_t ignore_index = -100;          ///< as in the forward call, like all options
  double label_smoothing = 0;
  double z_loss = 0;
  double scale = 1;
  double softcap = 0;
  Reduction reduction = Reduction::mean;
  std::optional<Upstream> dloss{};  ///< what dloss is, scalar or row; absent: row for Reduction::none, else scalar
  bool weight = false;              ///< classes have weights
  bool nll = false;                 ///< nll is given

  static CrossEntropyBackwardProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    CrossEntropyBackwardProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = dtype;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy_backward"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  bool operator==(const CrossEntropyBackwardProblem&) const = default;
};

/// One device's part of a loss whose vocabulary is spread over several: for each row eight floats, which the combination
/// understands. The classes at hand are vocab_start to vocab_start + cols - 1 of vocab_size. Gather the parts of all shards
/// (32 bytes a row and shard travel, not the logits) as (shards, rows, 8), in any order of the shards.
struct CrossEntropyShardProblem {
  using Arrays = CrossEntropyShardArrays;

  std::int64_t rows = 0;                            ///< >= 0
  std::int64_t cols = 1;                            ///< classes at hand, >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;                         ///< of logits: f32, f16 or bf16
  DType target_dtype = DType::i64;                  ///< of targets: i64 or i32. Targets are classes of the whole vocabulary
  std::optional<std::int64_t> logits_row_stride{};  ///< elements between rows of logits; absent: cols, 0: one row for all
  std::int64_t logits_alignment = 16;  ///< bytes logits' address is promised to be a multiple of, as for CrossEntropyProblem
  std::int64_t vocab_start = 0;        ///< class of the first column
  std::optional<std::int64_t> vocab_size{};  ///< classes in all shards; absent: vocab_start + cols
  std::int64_t ignore_index = -100;          ///< as for CrossEntropyProblem, like all options
  double label_smoothing = 0;
  double scale = 1;
  double softcap = 0;
  bool weight = false;  ///< classes have weights
  bool argmax = false;  ///< for a combination that has predicted or correct

  static CrossEntropyShardProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    CrossEntropyShardProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = dtype;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy_shard"; }
  bool operator==(const CrossEntropyShardProblem&) const = default;
};

/// The loss and lse of CrossEntropyProblem from the parts of all shards of the vocabulary. Every device may do it for itself
/// and finds the same bits.
struct CrossEntropyCombineProblem {
  using Arrays = CrossEntropyCombineArrays;

  std::int64_t rows = 0;             ///< >= 0
  std::int64_t shards = 1;           ///< >= 1
  std::int64_t vocab_size = 1;       ///< classes in all shards
  DType target_dtype = DType::i64;   ///< of targets and predicted: i64 or i32
  std::int64_t ignore_index = -100;  ///< as for CrossEntropyProblem, like all options
  double label_smoothing = 0;
  double z_loss = 0;
  Reduction reduction = Reduction::mean;
  bool weight = false;  ///< the parts were made with weights
  bool nll = false;
  bool argmax = false;  ///< like correct: the parts were made with it
  bool num_correct = false;
  bool check_targets = false;

  static CrossEntropyCombineProblem contiguous(std::int64_t rows, std::int64_t shards, std::int64_t vocab_size) {
    CrossEntropyCombineProblem problem;
    problem.rows = rows;
    problem.shards = shards;
    problem.vocab_size = vocab_size;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy_combine"; }
  bool operator==(const CrossEntropyCombineProblem&) const = default;
};

}  // namespace tunesmith

#include "tunesmith/cross_entropy_description.h"
