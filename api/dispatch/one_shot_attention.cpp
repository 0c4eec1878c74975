// Engine's one-shot attention: a plan looked up by value, without lock or allocation, and launched.

#include "api/dispatch/one_shot.h"

namespace tunesmith {
namespace {

/// Starts of packed sequences come in pairs.
bool are_packed(const AttentionProblem& problem, const AttentionArrays& arrays) {
  const bool q = arrays.cu_seqlens_q != nullptr, kv = arrays.cu_seqlens_kv != nullptr;
  if (q != kv || (problem.varlen && !q)) [[unlikely]]
    throw Error(ErrorCode::invalid_argument, q ? "cu_seqlens_kv" : "cu_seqlens_q", " is a null pointer, but ",
                q    ? "cu_seqlens_q is given"
                : kv ? "cu_seqlens_kv is given"
                     : "problem.varlen is set",
                "; expected device memory for both, or for neither and problem.varlen not set");
  return q;
}

struct AttentionCall {
  const void* q;
  const void* k;
  const void* v;
  const AttentionArrays& arrays;
  AttentionProblem problem;
  std::int64_t queries, keys;  ///< positive where there is any

  AttentionCall(const void* q_address, const void* k_address, const void* v_address, const AttentionArrays& given,
                const AttentionProblem& asked)
      : q(q_address), k(k_address), v(v_address), arrays(given), problem(asked) {
    problem.alibi = is_given("alibi_slopes", arrays.alibi_slopes, problem.alibi, "alibi");
    problem.sinks = is_given("sinks", arrays.sinks, problem.sinks);
    problem.varlen = are_packed(problem, arrays);
    check_mask_tiles();
    queries = problem.varlen ? problem.total_q.value_or(0) : std::min(problem.batch, problem.seq_q);
    keys = problem.varlen ? problem.total_kv.value_or(0)
                          : std::min(problem.batch, problem.seq_kv.value_or(problem.seq_q));
    problem.q_alignment = promise_of(q, problem.dtype, queries);
    problem.k_alignment = promise_of(k, problem.dtype, keys);
    problem.v_alignment = promise_of(v, problem.dtype, keys);
    problem.o_alignment = promise_of(arrays.o, problem.dtype, queries);
  }

  void check() const {
    alignment_of("q", q, problem.dtype, queries);
    alignment_of("k", k, problem.dtype, keys);
    alignment_of("v", v, problem.dtype, keys);
    if (problem.alibi) alignment_of("alibi_slopes", arrays.alibi_slopes, DType::f32, 1);
    if (problem.sinks) alignment_of("sinks", arrays.sinks, DType::f32, 1);
    if (problem.varlen) {
      alignment_of("cu_seqlens_q", arrays.cu_seqlens_q, DType::i32, 1);
      alignment_of("cu_seqlens_kv", arrays.cu_seqlens_kv, DType::i32, 1);
    }
    if (arrays.mask_tiles != nullptr) alignment_of("mask_tiles", arrays.mask_tiles, DType::i32, 1);
    alignment_of("o", arrays.o, problem.dtype, queries);
    if (arrays.lse != nullptr) alignment_of("lse", arrays.lse, DType::f32, queries);
  }

  /// An array alone does not tell which of the two is meant.
  void check_mask_tiles() const {
    const bool asked = problem.mask_tiles != MaskTiles::internal;
    if (is_given("mask_tiles", arrays.mask_tiles, asked) && !asked) [[unlikely]]
      throw Error(
          ErrorCode::invalid_argument,
          "mask_tiles is given, but problem.mask_tiles is MaskTiles::internal; expected MaskTiles::write or read, or "
          "a null pointer");
  }

  bool is_modified() const noexcept { return !problem.score_mod.empty() || !problem.mask_mod.empty(); }

  /// `aux`: arrays of the user's that there are.
  Addresses<18> addresses(std::size_t aux = 0) const noexcept {
    Addresses<18> all(q, k, v);
    all.add_if(problem.alibi, arrays.alibi_slopes);
    all.add_if(problem.sinks, arrays.sinks);
    all.add_if(problem.varlen, arrays.cu_seqlens_q);
    all.add_if(problem.varlen, arrays.cu_seqlens_kv);
    for (std::size_t i = 0; i < aux; ++i) all.add(arrays.aux[i]);
    all.add_if(problem.mask_tiles != MaskTiles::internal, arrays.mask_tiles);
    all.add(arrays.o);
    all.add(arrays.lse);
    return all;
  }
};

/// How many arrays a text reads is known once it has been looked at, and texts are no part of the small keys of one-shot
/// calls: the plan is looked up as prepare() does.
void launch_modified(Engine& engine, const AttentionCall& call, Stream stream) {
  call.check();
  const Plan plan = engine.prepare(call.problem, {}, stream);
  const std::size_t all = plan.state().executable->plan().pointers.size();
  const std::size_t aux = all - call.addresses().span().size();
  for (std::size_t i = aux; i < call.arrays.aux.size(); ++i)
    if (call.arrays.aux[i] != nullptr)
      throw Error(ErrorCode::invalid_argument, "aux[", i, "] is given, but score_mod and mask_mod read ", aux,
                  aux == 1 ? " array" : " arrays", "; expected null pointers behind them");
  plan.launch(call.addresses(aux).span(), stream);
}

}  // namespace

Plan Engine::prepare(const AttentionProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}

void Engine::attention(const void* q, const void* k, const void* v, const AttentionArrays& arrays,
                       const AttentionProblem& problem, Stream stream) {
  const AttentionCall call(q, k, v, arrays, problem);
  if (call.is_modified()) return launch_modified(*this, call, stream);
  launch_known(*this, parts().plans->attention, call, stream);
}

}  // namespace tunesmith
