#pragma once
// Evaluates one row of a row program. Internal to evaluate.h, which has the interface.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "templates/row_program/evaluate/evaluate.h"

namespace tunesmith::row_program {

inline std::size_t index(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

/// Enumerates the combinations of outcomes of a row's reductions like an odometer. A reduction has several outcomes if its
/// sum may or may not overflow, depending on the order of additions.
class Choices {
 public:
  /// Returns the outcome of a reduction, by its index.
  std::size_t of(int reduction, std::size_t outcomes) {
    for (const Choice& choice : made_)
      if (choice.reduction == reduction) return choice.index;
    made_.push_back({reduction, used_ < indices_.size() ? indices_[used_] : 0, outcomes});
    ++used_;
    return made_.back().index;
  }
  /// Goes on to the next combination. Returns false after the last one.
  bool next() {
    indices_.clear();
    for (const Choice& choice : made_) indices_.push_back(choice.index);
    while (!indices_.empty() && indices_.back() + 1 >= made_[indices_.size() - 1].outcomes) indices_.pop_back();
    made_.clear();
    used_ = 0;
    if (indices_.empty()) return false;
    ++indices_.back();
    return true;
  }

 private:
  struct Choice {
    int reduction;
    std::size_t index, outcomes;
  };
  std::vector<std::size_t> indices_;
  std::vector<Choice> made_;
  std::size_t used_ = 0;
};

/// Evaluates a row for one combination of outcomes. `inputs`: as EvaluatorOf::row() takes them.
template <typename Real>
std::vector<OutputRowOf<Real>> evaluate_row(const EvaluatorOf<Real>& evaluator, std::int64_t row,
                                            std::span<const std::span<const double>> inputs, Choices& choices);

}  // namespace tunesmith::row_program
