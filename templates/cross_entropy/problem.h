#pragma once
// A problem of the cross-entropy family as plain numbers. Internal to templates/.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/row/shape.h"
#include "templates/strided/shape.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith::cross_entropy {

enum class Kind : std::uint8_t {
  loss,      ///< logits -> loss, lse and optionally dlogits
  backward,  ///< logits, lse -> dlogits
  shard,     ///< some columns of the vocabulary -> partials
  combine,   ///< partials -> loss, lse
};

/// See tunesmith/cross_entropy.h for the meaning of the options.
struct Settings {
  Kind kind = Kind::loss;
  row::Shape shape;  ///< logits are in[0], dlogits out; its rows are the positions of all rows if columns are not adjacent
  std::optional<strided::Shape> positions{};  ///< if columns are not adjacent
  DType target = DType::i64;
  Gradient gradient = Gradient::none;
  Reduction reduction = Reduction::mean;
  Upstream upstream = Upstream::none;
  std::int64_t ignore_index = -100;
  std::int64_t vocab_start = 0, vocab_size = 0, shards = 1;
  double label_smoothing = 0, z_loss = 0, scale = 1, softcap = 0;
  bool weight = false, lse_low = false, nll = false, argmax = false, num_correct = false, check_targets = false;
  bool mark_ignored = false;  ///< argmax of ignored rows is -1
  bool lse_gradient = false;  ///< backward: adds the gradient through lse

  /// Returns whether logits are f64, and losses, weights and sums double.
  bool wide() const noexcept { return shape.wide(); }
  /// Returns the dtype of losses, weights and upstream gradients.
  DType number() const noexcept { return number_of(shape.input); }
  bool has_gradient() const noexcept { return gradient != Gradient::none; }
  bool reduced() const noexcept { return reduction != Reduction::none; }
  bool writes_loss() const noexcept { return kind == Kind::loss || kind == Kind::combine; }
  /// Returns whether the kernel computes argmax.
  bool finds_class() const noexcept { return argmax || num_correct; }
  /// Returns whether totals over rows are computed after the row kernel.
  bool has_totals() const noexcept { return writes_loss() && (reduced() || num_correct || check_targets); }
  /// Returns whether the row weights are summed before the row kernel.
  bool divides_gradient() const noexcept { return has_gradient() && reduction == Reduction::mean; }
  /// Returns everything except the shape that affects the generated source or the fastest configuration.
  std::string problem_class() const;
};

/// From problems that read_problem() and complete() returned.
Settings settings_of(const CrossEntropyProblem& problem);
Settings settings_of(const CrossEntropyBackwardProblem& problem);
Settings settings_of(const CrossEntropyShardProblem& problem);
Settings settings_of(const CrossEntropyCombineProblem& problem);

/// Returns the array of this name, or null.
const HostArray* find(std::span<const HostArray> arrays, std::string_view name) noexcept;
/// Returns the minimum work.
Cost cost_of(const Settings& settings, std::span<const ArrayInfo> arrays);
/// Fills all input arrays; deterministic.
void fill_inputs(const Settings& settings, std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays);
/// Compares the outputs with a reference in float64, or in long double for logits of f64.
CheckResult check(const Settings& settings, std::span<const HostArray> arrays, std::int64_t max_rows);

}  // namespace tunesmith::cross_entropy
