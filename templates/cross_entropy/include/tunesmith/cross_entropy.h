#pragma once
// Cross-entropy over rows of logits as typed problems: the loss, its gradient (in the same pass, or later from lse), and a
// loss whose vocabulary is sharded over devices.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/description.h"
#include "tunesmith/row_fields.h"
#include "tunesmith/strided_fields.h"

namespace tunesmith {

/// Reduction of the row losses.
enum class Reduction : std::uint8_t {
  /// The sum divided by the sum of the target weights. The z term is not weighted and is divided by the number of rows that
  /// are not ignored. NaN if all rows are ignored.
  mean,
  sum,   ///< 0 without rows
  none,  ///< one loss per row
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Reduction>{"mean", "sum", "none"};

/// Where the forward operation writes the gradient in the same pass.
enum class Gradient : std::uint8_t {
  none,      ///< no gradient
  separate,  ///< to a separate array
  in_place,  ///< over logits: equal dtypes and strides
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Gradient>{"none", "separate", "in_place"};

/// The upstream gradient: of the final result with respect to the loss.
enum class Upstream : std::uint8_t {
  none,    ///< 1 for every loss
  scalar,  ///< one element for all losses
  row,     ///< one element per row; requires Reduction::none
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Upstream>{"none", "scalar", "row"};

/// Device addresses, in launch order. Non-null optional arrays enable their options in a one-shot call. Numbers are float32,
/// or f64 for logits of f64.
struct CrossEntropyArrays {
  const void* logits = nullptr;
  const void* targets = nullptr;  ///< (rows), target dtype
  const void* weight = nullptr;   ///< (cols); optional
  const void* dloss = nullptr;    ///< (1), or (rows) for Reduction::none unless Upstream::scalar; optional
  void* loss = nullptr;           ///< (1), or (rows) for Reduction::none
  void* lse = nullptr;            ///< (rows), for the backward operation
  void* lse_low = nullptr;        ///< (rows), what rounding lse lost, for the backward operation; optional
  void* z_loss = nullptr;         ///< shaped like loss; required for z_loss > 0, otherwise invalid
  void* nll = nullptr;            ///< (rows); optional
  void* argmax = nullptr;         ///< (rows), target dtype; optional
  void* num_correct = nullptr;    ///< int64 (1); optional
  void* bad_targets = nullptr;  ///< int64 (2): number of rows with an invalid target, and the first of them or -1; optional
  void* dlogits = nullptr;      ///< (rows, cols), may be logits; optional
};

/// Device addresses for cross_entropy_backward, in launch order. Numbers are float32, or f64 for logits of f64.
struct CrossEntropyBackwardArrays {
  const void* logits = nullptr;
  const void* targets = nullptr;  ///< (rows), target dtype
  const void* lse = nullptr;      ///< (rows), from the forward operation or from combining shards
  const void* dloss = nullptr;    ///< (1), or (rows) for Reduction::none unless Upstream::scalar
  const void* lse_low = nullptr;  ///< (rows), from the same operation as lse; optional
  const void* nll = nullptr;      ///< (rows), from the same operation as lse; optional
  const void* weight = nullptr;   ///< (cols); optional
  const void* dlse = nullptr;     ///< (rows), gradient with respect to lse; optional
  void* dlogits = nullptr;        ///< (rows, cols), may be logits
};

/// Device addresses for cross_entropy_shard, in launch order. Numbers are float32, or f64 for logits of f64.
struct CrossEntropyShardArrays {
  const void* logits = nullptr;
  const void* targets = nullptr;  ///< (rows), target dtype
  const void* weight = nullptr;   ///< (cols), of the shard's classes; optional
  void* partials = nullptr;       ///< (rows, 8), 16-byte aligned
};

/// Device addresses for cross_entropy_combine, in launch order, as in CrossEntropyArrays.
struct CrossEntropyCombineArrays {
  const void* partials = nullptr;
  const void* targets = nullptr;
  void* loss = nullptr;
  void* lse = nullptr;
  void* lse_low = nullptr;
  void* z_loss = nullptr;
  void* nll = nullptr;
  void* argmax = nullptr;
  void* num_correct = nullptr;
  void* bad_targets = nullptr;
};

/// Cross-entropy loss over rows of logits, optionally with its gradient in the same read of the logits.
///
///   x       = softcap(scale * logits[r,:])
///   lse[r]  = log(sum_c exp(x[c]))
///   nll[r]  = lse[r] - x[t]                            with the target t = targets[r]
///   loss[r] = (1 - s) * w[t] * nll[r] + s / cols * sum_c w[c] * (lse[r] - x[c]) + z_loss * lse[r]^2
///   dlogits[r,:] = dloss * d(reduced loss) / d(logits[r,:])
///
/// with class weights w (default 1) and label smoothing s: PyTorch's cross_entropy with class indices, plus z_loss, scale
/// and softcap. The mean divides the first two terms by the sum of the target weights, as in PyTorch, and the z term by the
/// number of rows that are not ignored. Class probabilities as targets: the row program soft_cross_entropy.
///
/// Special rows
///   target == ignore_index   loss, z_loss, nll and gradient are 0, even if logits are NaN; lse and argmax are computed,
///                            but with mark_ignored argmax is -1
///   target out of range      loss and nll are NaN, and so is a reduced loss; the gradient is 0. The target is never used as
///                            an index; check_targets reports it. (PyTorch aborts the CUDA context with an assertion.)
///   NaN or +inf, or all -inf loss and gradient are NaN, as in PyTorch; lse is the maximum logit
///   -inf in a row            masks that class: probability and gradient 0. The loss of a masked target is +inf; with label
///                            smoothing so is the loss of any row with a masked class, with the gradient of smoothing
///
/// Sums are compensated float32, or double for logits of f64, and the target's exponential is kept out of the sum, so a loss
/// of 1e-10 is not 0 and a gradient of p - 1 keeps its digits.
///
/// Over a dimension that is not the last, logits are (rows, cols, inner), such as (batch, class, height * width), in any
/// order of strides: each of the rows * inner positions is a row of the formula, and arrays with an element for each row are
/// contiguous (rows, inner). The first invalid target that check_targets reports is an index into them.
///
/// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867). z_loss: Chowdhery et al.,
/// "PaLM", 2022 (arXiv:2204.02311). softcap: Gemma Team, "Gemma 2", 2024 (arXiv:2408.00118).
struct CrossEntropyProblem {
  using Arrays = CrossEntropyArrays;

  std::int64_t rows = 0;             ///< tokens, >= 0
  std::int64_t cols = 1;             ///< classes, >= 1: no target is valid without; kernels are specialized for it
  DType dtype = DType::f32;          ///< of logits: f32, f16, bf16 or f64
  DType target_dtype = DType::i64;   ///< of targets and argmax: i64 or i32
  std::optional<DType> out_dtype{};  ///< of dlogits: f32, f16 or bf16, with f64 logits f64; absent: dtype
  std::optional<std::int64_t>
      logits_row_stride{};  ///< elements between rows of logits; absent: cols * inner, 0: one row for all
  std::optional<std::int64_t> dlogits_row_stride{};  ///< elements between rows of dlogits; absent: cols * inner
  /// Promised alignment of logits in bytes: a power of two, element size to 16.
  std::int64_t logits_alignment = 16;
  std::int64_t dlogits_alignment = 16;    ///< the same for dlogits
  Gradient gradient = Gradient::none;     ///< whether dlogits are written, and where
  std::int64_t ignore_index = -100;       ///< rows with this target are ignored; may be a class
  double label_smoothing = 0;             ///< label-smoothing factor, 0 to 1
  double z_loss = 0;                      ///< factor of lse^2, >= 0; > 0 also writes that term to the array z_loss
  double scale = 1;                       ///< factor of logits, 1e-6 to 1e6
  double softcap = 0;                     ///< logits become softcap * tanh(logits / softcap), -inf stays; 0: no soft cap
  Reduction reduction = Reduction::mean;  ///< reduction of the row losses
  Upstream dloss = Upstream::none;        ///< upstream gradient known in advance, e.g. a loss scale; requires a gradient
  bool weight = false;                    ///< reads a weight per class
  bool lse_low = false;                   ///< writes lse_low, which the backward operation needs for large logits
  bool nll = false;                       ///< writes nll, which the backward operation needs for confident rows
  bool argmax = false;                    ///< writes the first class with the maximum logit of each row
  bool num_correct = false;               ///< writes the number of rows whose argmax is their target
  bool check_targets = false;             ///< counts targets that are neither a class nor ignore_index
  std::int64_t inner = 1;                 ///< positions of each column, >= 1
  std::optional<std::int64_t> logits_col_stride{};   ///< elements between columns of logits, >= 0; absent: inner
  std::int64_t logits_inner_stride = 1;              ///< elements between positions of logits, >= 0
  std::optional<std::int64_t> dlogits_col_stride{};  ///< the same for dlogits, whose elements may not share addresses
  std::int64_t dlogits_inner_stride = 1;
  bool mark_ignored = false;  ///< argmax of ignored rows is -1; requires argmax

  static CrossEntropyProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    CrossEntropyProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = dtype;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  /// Returns whether the columns of an array are not adjacent.
  constexpr bool strided() const noexcept {
    return inner != 1 || logits_col_stride.value_or(1) != 1 ||
           (gradient != Gradient::none && dlogits_col_stride.value_or(1) != 1);
  }
  bool operator==(const CrossEntropyProblem&) const = default;
};

/// Gradient of CrossEntropyProblem's loss from the forward operation's lse, in one read and one write for any row length.
/// Options shared with the forward call must be equal. exp(logit - lse) has the absolute error of a rounded lse as its
/// relative one: 2^-12 for logits of 1e4. With lse_low from the forward call, whose sum with lse is not rounded, it has the
/// same error for logits of any size. The gradient of a target keeps the digits of p - 1 in confident rows with nll or
/// lse_low from the forward call; without them, nll is computed as lse - logit. Reduction::mean computes the sum of the
/// target weights again. With dlse, the gradient through a use of lse itself is added: dlse[r] * p, which no reduction
/// divides. Rows that are ignored or have an invalid target have that part alone; with a dlse of 0, they have gradient 0
/// whatever their logits are.
///
/// A vocabulary shard passes its own columns and dlogits, lse and nll of the whole vocabulary, and its position in
/// vocab_start and vocab_size. For a shard with weights, label smoothing and the mean are rejected, because they need the
/// weights of all classes: use Reduction::sum and divide dloss. The z term is then divided by the weights, too: with z_loss,
/// multiply the weights by (rows that are not ignored) / (sum of the target weights) and divide dloss by the number of rows.
struct CrossEntropyBackwardProblem {
  using Arrays = CrossEntropyBackwardArrays;

  std::int64_t rows = 0;             ///< >= 0
  std::int64_t cols = 1;             ///< classes in this shard, >= 0; kernels are specialized for it. 0: no launch
  DType dtype = DType::f32;          ///< of logits: f32, f16, bf16 or f64
  DType target_dtype = DType::i64;   ///< of targets: i64 or i32
  std::optional<DType> out_dtype{};  ///< of dlogits: f32, f16 or bf16, with f64 logits f64; absent: dtype
  std::optional<std::int64_t>
      logits_row_stride{};  ///< elements between rows of logits; absent: cols * inner, 0: one row for all
  std::optional<std::int64_t> dlogits_row_stride{};  ///< elements between rows of dlogits; absent: cols * inner
  std::int64_t logits_alignment = 16;                ///< promised alignment of logits in bytes, as in CrossEntropyProblem
  std::int64_t dlogits_alignment = 16;               ///< the same for dlogits
  bool in_place = false;                             ///< dlogits is logits: equal dtypes and strides
  std::int64_t vocab_start = 0;                      ///< class of the first column
  std::optional<std::int64_t> vocab_size{};          ///< classes in all shards; absent: vocab_start + cols
  std::int64_t ignore_index = -100;                  ///< as in the forward call, like all options
  double label_smoothing = 0;
  double z_loss = 0;
  double scale = 1;
  double softcap = 0;
  Reduction reduction = Reduction::mean;
  std::optional<Upstream> dloss{};  ///< scalar or row; absent: row for Reduction::none, otherwise scalar
  bool weight = false;              ///< reads a weight per class
  bool lse_low = false;             ///< reads lse_low
  bool nll = false;                 ///< reads nll
  bool dlse = false;                ///< adds dlse[r] * d(lse[r]) / d(logits[r,:]), also to rows without a loss
  std::int64_t inner = 1;           ///< positions of each column, as in CrossEntropyProblem, like the strides
  std::optional<std::int64_t> logits_col_stride{};
  std::int64_t logits_inner_stride = 1;
  std::optional<std::int64_t> dlogits_col_stride{};
  std::int64_t dlogits_inner_stride = 1;

  static CrossEntropyBackwardProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    CrossEntropyBackwardProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = dtype;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy_backward"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  /// Returns whether the columns of an array are not adjacent.
  constexpr bool strided() const noexcept {
    return inner != 1 || logits_col_stride.value_or(1) != 1 || dlogits_col_stride.value_or(1) != 1;
  }
  bool operator==(const CrossEntropyBackwardProblem&) const = default;
};

/// Partials of a loss whose vocabulary is sharded over devices: eight numbers per row for cross_entropy_combine, float32 or,
/// for logits of f64, f64. The shard has classes vocab_start to vocab_start + cols - 1 of vocab_size. Gather the partials of
/// all shards as (shards, rows, 8), in any order of the shards: 32 bytes per row and shard travel (64 for f64), not the
/// logits.
struct CrossEntropyShardProblem {
  using Arrays = CrossEntropyShardArrays;

  std::int64_t rows = 0;                            ///< >= 0
  std::int64_t cols = 1;                            ///< classes in this shard, >= 1; kernels are specialized for it
  DType dtype = DType::f32;                         ///< of logits: f32, f16, bf16 or f64
  DType target_dtype = DType::i64;                  ///< of targets, which are classes of the whole vocabulary: i64 or i32
  std::optional<std::int64_t> logits_row_stride{};  ///< elements between rows of logits; absent: cols, 0: one row for all
  std::int64_t logits_alignment = 16;               ///< promised alignment of logits in bytes, as in CrossEntropyProblem
  std::int64_t vocab_start = 0;                     ///< class of the first column
  std::optional<std::int64_t> vocab_size{};         ///< classes in all shards; absent: vocab_start + cols
  std::int64_t ignore_index = -100;                 ///< as for CrossEntropyProblem, like all options
  double label_smoothing = 0;
  double scale = 1;
  double softcap = 0;
  bool weight = false;  ///< reads a weight per class
  bool argmax = false;  ///< for a combination with argmax or num_correct

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

/// Loss and lse of CrossEntropyProblem from the partials of all vocabulary shards. Every device may combine them itself and
/// gets the same bits.
struct CrossEntropyCombineProblem {
  using Arrays = CrossEntropyCombineArrays;

  std::int64_t rows = 0;             ///< >= 0
  std::int64_t shards = 1;           ///< >= 1
  std::int64_t vocab_size = 1;       ///< classes in all shards
  DType dtype = DType::f32;          ///< of partials, loss, lse, z_loss and nll: f64 for logits of f64, f32 for all others
  DType target_dtype = DType::i64;   ///< of targets and argmax: i64 or i32
  std::int64_t ignore_index = -100;  ///< as for CrossEntropyProblem, like all options
  double label_smoothing = 0;
  double z_loss = 0;
  Reduction reduction = Reduction::mean;
  bool weight = false;  ///< the partials were computed with weights
  bool lse_low = false;
  bool nll = false;
  bool argmax = false;  ///< requires partials with argmax, like num_correct
  bool num_correct = false;
  bool check_targets = false;
  bool mark_ignored = false;

  static CrossEntropyCombineProblem contiguous(std::int64_t rows, std::int64_t shards, std::int64_t vocab_size,
                                               DType dtype = DType::f32) {
    CrossEntropyCombineProblem problem;
    problem.rows = rows;
    problem.shards = shards;
    problem.vocab_size = vocab_size;
    problem.dtype = dtype;
    return problem;
  }

  constexpr std::string_view op() const noexcept { return "cross_entropy_combine"; }
  bool operator==(const CrossEntropyCombineProblem&) const = default;
};

}  // namespace tunesmith

#include "tunesmith/cross_entropy_description.h"
