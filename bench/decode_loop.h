#pragma once
// Problems and arrays of decoding, one key more at each token.

#include <cstdint>
#include <vector>

#include "bench/gpu.h"

namespace tunesmith::bench {

/// Decoding against a KV cache with room for `most` positions: every token has one key more.
class DecodeLoop {
 public:
  static constexpr std::int64_t most = 8192;

  DecodeLoop(Engine& engine, std::int64_t batch)
      : batch_(batch),
        q_(random_numbers(engine, DType::bf16, batch * heads * head_dim, 1)),
        k_(random_numbers(engine, DType::bf16, batch * most * kv_heads * head_dim, 1)),
        v_(random_numbers(engine, DType::bf16, batch * most * kv_heads * head_dim, 1)),
        o_(engine, static_cast<std::size_t>(batch * heads * head_dim * 2)) {}

  AttentionProblem problem(std::int64_t seq_kv) const {
    AttentionProblem problem;
    problem.batch = batch_;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.seq_q = 1;
    problem.seq_kv = seq_kv;
    problem.head_dim = head_dim;
    problem.k_strides.batch = problem.v_strides.batch = most * kv_heads * head_dim;
    return problem;
  }
  AttentionArrays arrays() const { return {.q = q_.data(), .k = k_.data(), .v = v_.data(), .o = o_.data()}; }
  std::vector<NamedArray> named_arrays() const {
    return {{"q", q_.data()}, {"k", k_.data()}, {"v", v_.data()}, {"o", o_.data()}};
  }

 private:
  static constexpr std::int64_t heads = 32, kv_heads = 8, head_dim = 128;
  std::int64_t batch_;
  DeviceBuffer q_, k_, v_, o_;
};

}  // namespace tunesmith::bench
