#pragma once
// A problem of the cross-entropy family as plain numbers. Internal to templates/.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/row/shape.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith::cross_entropy {

enum class Kind : std::uint8_t {
  loss,      ///< logits -> loss, lse and, when asked, dlogits
  backward,  ///< logits, lse -> dlogits
  shard,     ///< some columns of the vocabulary -> parts
  combine,   ///< parts -> loss, lse
};

/// See tunesmith/cross_entropy.h for what the options mean.
struct Settings {
  Kind kind = Kind::loss;
  row::Shape shape;  ///< logits are in[0], dlogits out
  DType target = DType::i64;
  Gradient gradient = Gradient::none;
  Reduction reduction = Reduction::mean;
  Upstream upstream = Upstream::none;
  std::int64_t ignore_index = -100;
  std::int64_t vocab_start = 0, vocab_size = 0, shards = 1;
  double label_smoothing = 0, z_loss = 0, scale = 1, softcap = 0;
  bool weight = false, nll = false, argmax = false, num_correct = false, check_targets = false;

  bool has_gradient() const noexcept { return gradient != Gradient::none; }
  bool reduced() const noexcept { return reduction != Reduction::none; }
  bool writes_loss() const noexcept { return kind == Kind::loss || kind == Kind::combine; }
  /// The largest logit's class is looked for.
  bool finds_class() const noexcept { return argmax || num_correct; }
  /// Totals over rows are formed after the rows' own kernel.
  bool has_totals() const noexcept { return writes_loss() && (reduced() || num_correct || check_targets); }
  /// The rows' weights are summed before it.
  bool divides_gradient() const noexcept { return has_gradient() && reduction == Reduction::mean; }
  /// What changes the generated text or which configuration is fast, next to the shape.
  std::string problem_class() const;
};

/// Of problems that read_problem() and complete() returned.
Settings settings_of(const CrossEntropyProblem& problem);
Settings settings_of(const CrossEntropyBackwardProblem& problem);
Settings settings_of(const CrossEntropyShardProblem& problem);
Settings settings_of(const CrossEntropyCombineProblem& problem);

/// The array of this name; null where there is none.
const HostArray* find(std::span<const HostArray> arrays, std::string_view name) noexcept;
/// Writes every input array; deterministic.
void fill_inputs(const Settings& settings, std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays);
/// Compares with a float64 reference.
CheckResult check(const Settings& settings, std::span<const HostArray> arrays, std::int64_t max_rows);

}  // namespace tunesmith::cross_entropy
