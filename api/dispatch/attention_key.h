#pragma once
// Everything that determines the plan of a one-shot attention call, as a few words. The problem must already say what the
// call's addresses imply, so that equal keys are equal problems. Problems with score_mod or mask_mod have no such key.

#include <bit>
#include <cstdint>
#include <optional>

#include "api/dispatch/key.h"
#include "tunesmith/attention.h"

namespace tunesmith {

struct AttentionKey : DispatchKey<26> {
  AttentionKey() = default;

  explicit AttentionKey(const AttentionProblem& problem) noexcept {
    // Every number has a word of its own: one that is out of range must not look like another problem's. Absent numbers are
    // told from zero by a bit.
    words[0] = word(problem.batch);
    words[1] = word(problem.heads);
    words[2] = word(problem.kv_heads.value_or(problem.heads));
    words[3] = word(problem.seq_q);
    words[4] = word(problem.seq_kv.value_or(problem.seq_q));
    words[5] = word(problem.head_dim);
    words[6] = word(problem.head_dim_v.value_or(problem.head_dim));
    words[7] = word(problem.window_left, 43);
    words[8] = word(problem.window_right, 44);
    words[9] = word(problem.scale, 45);
    words[10] = word(problem.softcap);
    words[11] = word(problem.total_q, 46);
    words[12] = word(problem.total_kv, 47);
    set_strides(13, problem.q_strides);
    set_strides(16, problem.k_strides);
    set_strides(19, problem.v_strides);
    set_strides(22, problem.o_strides);
    words[25] |= bits(problem.dtype, 0) | bits(problem.layout, 8) | bits(problem.causal, 12) | bits(problem.alibi, 16) |
                 bits(problem.sinks, 17) | bits(problem.varlen, 18) | bits(problem.mask_tiles, 19) |
                 bits(problem.q_alignment, 23) | bits(problem.k_alignment, 28) | bits(problem.v_alignment, 33) |
                 bits(problem.o_alignment, 38);
  }

 private:
  static std::uint64_t word(std::int64_t value) noexcept { return static_cast<std::uint64_t>(value); }
  static std::uint64_t word(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
  template <typename Number>
  std::uint64_t word(const std::optional<Number>& value, int place) noexcept {
    words[25] |= bits(value.has_value(), place);
    return value ? word(*value) : 0;
  }
  template <typename Small>
  static std::uint64_t bits(Small value, int place) noexcept {
    return static_cast<std::uint64_t>(value) << place;
  }
  void set_strides(std::size_t first, const AttentionArrayStrides& strides) noexcept {
    const int place = 48 + static_cast<int>(first - 13);
    words[first] = word(strides.batch, place);
    words[first + 1] = word(strides.seq, place + 1);
    words[first + 2] = word(strides.head, place + 2);
  }
};

}  // namespace tunesmith
