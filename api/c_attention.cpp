// The C API of one-shot attention.

#include <cstddef>

#include "api/c_calls.h"
#include "api/c_cross_entropy.h"
#include "api/c_struct.h"

using namespace tunesmith;

namespace {

static_assert(static_cast<int>(AttentionLayout::bhsd) == TUNESMITH_BHSD);
static_assert(static_cast<int>(Causal::top_left) == TUNESMITH_CAUSAL_TOP_LEFT &&
              static_cast<int>(Causal::bottom_right) == TUNESMITH_CAUSAL_BOTTOM_RIGHT);

AttentionArrayStrides strides_from_c(const tunesmith_attention_strides& strides) {
  return {strides.batch, strides.seq, strides.head};
}

AttentionProblem problem_from_c(const tunesmith_attention_problem& from) {
  constexpr std::size_t first_version =
      offsetof(tunesmith_attention_problem, o_strides) + sizeof(tunesmith_attention_strides);
  const auto given = known_fields(from, first_version, "problem", "tunesmith_attention_problem");
  if (given.layout < TUNESMITH_BSHD || given.layout > TUNESMITH_BHSD)
    throw Error(ErrorCode::invalid_argument, "layout is ", given.layout,
                "; allowed: TUNESMITH_BSHD (0), TUNESMITH_BHSD (1)");
  if (given.causal < TUNESMITH_CAUSAL_NONE || given.causal > TUNESMITH_CAUSAL_BOTTOM_RIGHT)
    throw Error(ErrorCode::invalid_argument, "causal is ", given.causal,
                "; allowed: TUNESMITH_CAUSAL_NONE (0), TUNESMITH_CAUSAL_TOP_LEFT (1), TUNESMITH_CAUSAL_BOTTOM_RIGHT (2)");
  AttentionProblem problem;
  problem.batch = given.batch;
  problem.heads = given.heads;
  problem.kv_heads = given.kv_heads;
  problem.seq_q = given.seq_q;
  problem.seq_kv = given.seq_kv;
  problem.head_dim = given.head_dim;
  problem.head_dim_v = given.head_dim_v;
  problem.dtype = float_dtype_from_c(given.dtype, "dtype");
  problem.layout = static_cast<AttentionLayout>(given.layout);
  problem.causal = static_cast<Causal>(given.causal);
  if (given.has_window_left != 0) problem.window_left = given.window_left;
  if (given.has_window_right != 0) problem.window_right = given.window_right;
  problem.scale = given.scale;
  problem.softcap = given.softcap;
  problem.total_q = given.total_q;
  problem.total_kv = given.total_kv;
  problem.q_strides = strides_from_c(given.q_strides);
  problem.k_strides = strides_from_c(given.k_strides);
  problem.v_strides = strides_from_c(given.v_strides);
  problem.o_strides = strides_from_c(given.o_strides);
  return problem;
}

}  // namespace

tunesmith_status tunesmith_attention(tunesmith_engine* engine, const tunesmith_attention_arrays* arrays,
                                     const tunesmith_attention_problem* problem, tunesmith_stream stream) {
  return guarded([&] {
    constexpr std::size_t first_version = offsetof(tunesmith_attention_arrays, lse) + sizeof(float*);
    const auto addresses = known_fields(given(arrays, "arrays"), first_version, "arrays", "tunesmith_attention_arrays");
    const AttentionProblem described = problem_from_c(given(problem, "problem"));
    given(engine, "engine")
        .engine.attention(addresses.q, addresses.k, addresses.v,
                          {.alibi_slopes = addresses.alibi_slopes,
                           .sinks = addresses.sinks,
                           .cu_seqlens_q = addresses.cu_seqlens_q,
                           .cu_seqlens_kv = addresses.cu_seqlens_kv,
                           .o = addresses.o,
                           .lse = addresses.lse},
                          described, stream);
  });
}
