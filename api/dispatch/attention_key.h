#pragma once
// Everything that decides which plan a one-shot attention call needs, as a few words. Made from a problem that says what the
// call's addresses told already, so that equal keys are equal problems. Of
// problems without a user's text: those are looked up by it.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "api/dispatch/key.h"
#include "tunesmith/attention.h"

namespace tunesmith {

struct AttentionKey : DispatchKey<26> {
  AttentionKey() = default;

  explicit AttentionKey(const AttentionProblem& problem) noexcept {
    // Numbers have words of their own: one that is out of range must not look like another problem's.
    words[0] = word(problem.batch);
    words[1] = word(problem.heads);
    words[2] = word(problem.kv_heads == 0 ? problem.heads : problem.kv_heads);
    words[3] = word(problem.seq_q);
    words[4] = word(problem.seq_kv == 0 ? std::max<std::int64_t>(problem.seq_q, 1) : problem.seq_kv);
    words[5] = word(problem.head_dim);
    words[6] = word(problem.head_dim_v == 0 ? problem.head_dim : problem.head_dim_v);
    words[7] = word(problem.window_left);
    words[8] = word(problem.window_right);
    words[9] = word(problem.scale);
    words[10] = word(problem.softcap);
    if (problem.varlen) {  // else the totals say nothing
      words[11] = word(problem.total_q);
      words[12] = word(problem.total_kv);
    }
    set_strides(13, problem.q_strides);
    set_strides(16, problem.k_strides);
    set_strides(19, problem.v_strides);
    set_strides(22, problem.o_strides);
    words[25] = bits(problem.dtype, 0) | bits(problem.layout, 8) | bits(problem.causal, 16) | bits(problem.alibi, 24) |
                bits(problem.sinks, 25) | bits(problem.varlen, 26) | bits(problem.mask_tiles, 27) |
                bits(problem.q_alignment, 32) | bits(problem.k_alignment, 40) | bits(problem.v_alignment, 48) |
                bits(problem.o_alignment, 56);
  }

 private:
  static std::uint64_t word(std::int64_t value) noexcept { return static_cast<std::uint64_t>(value); }
  static std::uint64_t word(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
  template <typename Small>
  static std::uint64_t bits(Small value, int place) noexcept {
    return static_cast<std::uint64_t>(value) << place;
  }
  void set_strides(std::size_t first, const AttentionArrayStrides& strides) noexcept {
    words[first] = word(strides.batch);
    words[first + 1] = word(strides.seq);
    words[first + 2] = word(strides.head);
  }
};

}  // namespace tunesmith
