// The C API of attention.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/c/calls.h"
#include "api/c/cross_entropy.h"
#include "api/c/struct.h"

using namespace tunesmith;

namespace {

static_assert(static_cast<int>(AttentionLayout::bhsd) == TUNESMITH_BHSD);
static_assert(static_cast<int>(Causal::top_left) == TUNESMITH_CAUSAL_TOP_LEFT &&
              static_cast<int>(Causal::bottom_right) == TUNESMITH_CAUSAL_BOTTOM_RIGHT);
static_assert(static_cast<int>(MaskTiles::write) == TUNESMITH_MASK_TILES_WRITE &&
              static_cast<int>(MaskTiles::read) == TUNESMITH_MASK_TILES_READ);

constexpr std::size_t most_aux = std::tuple_size_v<decltype(AttentionArrays::aux)>;
static_assert(sizeof(tunesmith_attention_arrays::aux) == most_aux * sizeof(void*));

/// A field whose default is not zero: zero counts only if `has` is set.
std::optional<std::int64_t> optional_from_c(std::int64_t value, int has) {
  return value != 0 || has != 0 ? std::optional(value) : std::nullopt;
}

AttentionArrayStrides strides_from_c(const tunesmith_attention_strides& strides) {
  return {optional_from_c(strides.batch, strides.has_batch), optional_from_c(strides.seq, strides.has_seq),
          optional_from_c(strides.head, strides.has_head)};
}

/// `place`: "problem.aux[1]".
AttentionAux aux_from_c(const tunesmith_attention_aux& from, const std::string& place) {
  constexpr std::size_t first_version = offsetof(tunesmith_attention_aux, word) + sizeof(char*);
  const auto known = known_fields(from, first_version, place.c_str(), "tunesmith_attention_aux");
  AttentionAux aux;
  aux.name = &given(known.name, (place + ".name").c_str());
  if (known.dtype < TUNESMITH_F32 || known.dtype > TUNESMITH_I64)
    throw Error(ErrorCode::invalid_argument, place, ".dtype is ", known.dtype,
                "; allowed: TUNESMITH_F32 (0) to TUNESMITH_I64 (5)");
  aux.dtype = static_cast<DType>(known.dtype);
  if (known.has_length != 0) {
    aux.length = known.length;
    return aux;
  }
  if ((known.integer != 0) + (known.real != 0) + (known.word != nullptr) > 1)
    throw Error(ErrorCode::invalid_argument, place, " has more than one of integer, real and word; expected one value for ",
                aux.name);
  if (known.word != nullptr)
    aux.value = std::string(known.word);
  else if (known.real != 0)
    aux.value = known.real;
  else
    aux.value = std::int64_t{known.integer};
  return aux;
}

/// The caller's header says how large an element is.
std::vector<AttentionAux> all_aux_from_c(const tunesmith_attention_aux* first, std::size_t count) {
  if (count > most_aux)
    throw Error(ErrorCode::invalid_argument, "problem.aux_count is ", count, "; allowed: up to ", most_aux);
  std::vector<AttentionAux> all;
  const auto* address = reinterpret_cast<const std::byte*>(first);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& aux = given(reinterpret_cast<const tunesmith_attention_aux*>(address), "problem.aux");
    all.push_back(aux_from_c(aux, "problem.aux[" + std::to_string(i) + "]"));
    address += aux.struct_size;
  }
  return all;
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
  if (given.mask_tiles < TUNESMITH_MASK_TILES_INTERNAL || given.mask_tiles > TUNESMITH_MASK_TILES_READ)
    throw Error(ErrorCode::invalid_argument, "mask_tiles is ", given.mask_tiles,
                "; allowed: TUNESMITH_MASK_TILES_INTERNAL (0), TUNESMITH_MASK_TILES_WRITE (1), "
                "TUNESMITH_MASK_TILES_READ (2)");
  AttentionProblem problem;
  problem.batch = given.batch;
  problem.heads = given.heads;
  problem.kv_heads = optional_from_c(given.kv_heads, 0);
  problem.seq_q = given.seq_q;
  problem.seq_kv = optional_from_c(given.seq_kv, given.has_seq_kv);
  problem.head_dim = given.head_dim;
  problem.head_dim_v = optional_from_c(given.head_dim_v, 0);
  problem.dtype = float_dtype_from_c(given.dtype, "dtype");
  problem.layout = static_cast<AttentionLayout>(given.layout);
  problem.causal = static_cast<Causal>(given.causal);
  problem.window_left = optional_from_c(given.window_left, given.has_window_left);
  problem.window_right = optional_from_c(given.window_right, given.has_window_right);
  if (given.scale != 0) problem.scale = given.scale;
  problem.softcap = given.softcap;
  problem.total_q = optional_from_c(given.total_q, given.has_total_q);
  problem.total_kv = optional_from_c(given.total_kv, given.has_total_kv);
  problem.q_strides = strides_from_c(given.q_strides);
  problem.k_strides = strides_from_c(given.k_strides);
  problem.v_strides = strides_from_c(given.v_strides);
  problem.o_strides = strides_from_c(given.o_strides);
  problem.alibi = given.alibi != 0;
  problem.sinks = given.sinks != 0;
  problem.varlen = given.varlen != 0;
  if (given.score_mod != nullptr) problem.score_mod = given.score_mod;
  if (given.mask_mod != nullptr) problem.mask_mod = given.mask_mod;
  problem.aux = all_aux_from_c(given.aux, given.aux_count);
  problem.mask_tiles = static_cast<MaskTiles>(given.mask_tiles);
  return problem;
}

AttentionArrays arrays_from_c(const tunesmith_attention_arrays& from) {
  AttentionArrays arrays{.q = from.q,
                         .k = from.k,
                         .v = from.v,
                         .alibi_slopes = from.alibi_slopes,
                         .sinks = from.sinks,
                         .cu_seqlens_q = from.cu_seqlens_q,
                         .cu_seqlens_kv = from.cu_seqlens_kv,
                         .mask_tiles = from.mask_tiles,
                         .o = from.o,
                         .lse = from.lse};
  std::ranges::copy(from.aux, arrays.aux.begin());
  return arrays;
}

}  // namespace

tunesmith_status tunesmith_problem_from_attention(const tunesmith_attention_problem* problem, tunesmith_problem** fields) {
  return guarded([&] {
    tunesmith_problem*& result = given(fields, "fields");
    result = new tunesmith_problem{to_problem(problem_from_c(given(problem, "problem")))};
  });
}

tunesmith_status tunesmith_attention(tunesmith_engine* engine, const tunesmith_attention_arrays* arrays,
                                     const tunesmith_attention_problem* problem, tunesmith_stream stream) {
  return guarded([&] {
    constexpr std::size_t first_version = offsetof(tunesmith_attention_arrays, lse) + sizeof(float*);
    const auto addresses = known_fields(given(arrays, "arrays"), first_version, "arrays", "tunesmith_attention_arrays");
    const AttentionProblem described = problem_from_c(given(problem, "problem"));
    given(engine, "engine").engine.run(described, arrays_from_c(addresses), stream);
  });
}
