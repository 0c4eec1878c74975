#pragma once
// Everything that decides which plan a one-shot call of the cross-entropy family needs, as a few words. Made from a problem
// that says what the call's addresses told already, so that equal keys are equal problems.

#include <bit>
#include <cstdint>

#include "api/dispatch/key.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith {

struct CrossEntropyKey : DispatchKey<12> {
  CrossEntropyKey() = default;

  explicit CrossEntropyKey(const CrossEntropyProblem& problem) noexcept {
    set_logits(problem, problem.z_loss);
    words[3] = stride(problem.dlogits_row_stride, problem.cols);
    words[4] = logits_bits(problem) | dlogits_bits(problem) | reduction_bits(problem) | bits(problem.gradient, 46) |
               bits(problem.dloss, 44) | bits(problem.nll, 50) | bits(problem.predicted, 51) | bits(problem.correct, 52) |
               bits(problem.check_targets, 53);
  }
  explicit CrossEntropyKey(const CrossEntropyBackwardProblem& problem) noexcept {
    set_logits(problem, problem.z_loss);
    words[3] = stride(problem.dlogits_row_stride, problem.cols);
    words[4] = logits_bits(problem) | dlogits_bits(problem) | reduction_bits(problem) | bits(problem.in_place, 46) |
               bits(problem.dloss, 44) | bits(problem.nll, 50) | std::uint64_t{1} << 60;
    words[10] = word(problem.vocab_start);
    words[11] = word(problem.vocab_size);
  }
  explicit CrossEntropyKey(const CrossEntropyShardProblem& problem) noexcept {
    set_logits(problem, 0);
    words[4] = logits_bits(problem) | bits(problem.predicted, 51) | std::uint64_t{2} << 60;
    words[10] = word(problem.vocab_start);
    words[11] = word(problem.vocab_size);
  }
  explicit CrossEntropyKey(const CrossEntropyCombineProblem& problem) noexcept {
    words[0] = word(problem.rows);
    words[1] = word(problem.shards);
    words[4] = bits(problem.target_dtype, 16) | reduction_bits(problem) | bits(problem.weight, 49) | bits(problem.nll, 50) |
               bits(problem.predicted, 51) | bits(problem.correct, 52) | bits(problem.check_targets, 53) |
               std::uint64_t{3} << 60;
    words[5] = word(problem.ignore_index);
    words[6] = word(problem.label_smoothing);
    words[7] = word(problem.z_loss);
    words[11] = word(problem.vocab_size);
  }

 private:
  static std::uint64_t word(std::int64_t value) noexcept { return static_cast<std::uint64_t>(value); }
  static std::uint64_t word(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
  static std::uint64_t stride(std::int64_t given, std::int64_t cols) noexcept { return word(given == 0 ? cols : given); }
  template <typename Small>
  static std::uint64_t bits(Small value, int place) noexcept {
    return static_cast<std::uint64_t>(value) << place;
  }

  // Bit 0: dtype, 8: that of dlogits, 16: that of targets, 24 and 32: alignments, 42: reduction, 44: dloss, 46: gradient,
  // from 49: flags, 60: the operation.
  template <typename Problem>
  static std::uint64_t logits_bits(const Problem& problem) noexcept {
    return bits(problem.dtype, 0) | bits(problem.target_dtype, 16) | bits(problem.logits_alignment, 24) |
           bits(problem.weight, 49);
  }
  template <typename Problem>
  static std::uint64_t dlogits_bits(const Problem& problem) noexcept {
    return bits(problem.out_dtype, 8) | bits(problem.dlogits_alignment, 32);
  }
  template <typename Problem>
  static std::uint64_t reduction_bits(const Problem& problem) noexcept {
    return bits(problem.reduction, 42);
  }
  template <typename Problem>
  void set_logits(const Problem& problem, double z_loss) noexcept {
    words[0] = word(problem.rows);
    words[1] = word(problem.cols);
    words[2] = stride(problem.logits_row_stride, problem.cols);
    words[5] = word(problem.ignore_index);
    words[6] = word(problem.label_smoothing);
    words[7] = word(z_loss);
    words[8] = word(problem.scale);
    words[9] = word(problem.softcap);
  }
};

}  // namespace tunesmith
