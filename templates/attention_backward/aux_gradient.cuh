// Gradients of the arrays that score_mod reads: daux[e] = sum over pairs of dS * (derivative of score_mod by element e).
//
//   start   zeroes the sums in the workspace
//   terms   a block computes S and dP of a tile as other kernels do, and leaves scores and dS in shared memory. Its threads
//           then evaluate score_mod over dual numbers, once for each element that a pair reads
//   end     writes the sums, or adds them
//
// A thread goes along a diagonal of the tile: q - k is constant there, as in positional biases. It keeps the sum of
// neighbouring terms of one element in registers. Where all lanes of a warp have sums of one element, such as a number of a
// head or of a query, they add them up first.
//
// Atomic additions of float32 are in any order. With `ordered` the terms kernel runs twice: it finds the largest term of
// each element, and then adds integers in units that follow from it. Both are the same in any order.
#pragma once

#include "attention/modification.cuh"
#include "attention/tiles.cuh"
#include "attention_backward/aux_params.cuh"
#include "attention_backward/dual_elements.cuh"
#include "attention_backward/pairs.cuh"
#include "device/atomics.cuh"

namespace tunesmith {

constexpr int aux_threads = 256;  ///< of the first and of the last kernel

/// How the terms kernel uses the sums of its threads.
enum class AuxPass : int {
  add,      ///< adds them
  largest,  ///< finds the largest of each element
  count,    ///< adds integers
};

template <const BackwardShape& backward>
__device__ __forceinline__ void attention_backward_aux_start(const AttentionBackwardParams& params,
                                                             const AuxGradients& aux) {
  for (int64 i = block_index() * aux_threads + thread_index(); i < aux.elements; i += aux.stride) {
    if constexpr (backward.exact_aux) {
      reinterpret_cast<uint64*>(params.attention.workspace + aux.sums_at)[i] = 0;
      workspace_words(params, aux.largest_at)[i] = 0;
    } else {
      workspace_floats(params, aux.sums_at)[i] = 0.0f;
    }
  }
}

/// 2^exponent.
__device__ __forceinline__ double power_of_two(int exponent) {
  return __builtin_bit_cast(double, static_cast<uint64>(1023 + exponent) << 52);
}
/// Exponent of the units of an element's integers. `largest`: the bits of its largest term, not 0.
__device__ __forceinline__ int unit_exponent(const AuxGradients& aux, uint32 largest) {
  return static_cast<int>(largest >> 23) - 126 - aux.shift;
}

template <const BackwardShape& backward>
__device__ __forceinline__ void attention_backward_aux_end(const AttentionBackwardParams& params, const AuxGradients& aux) {
#pragma unroll 1
  for (int slot = 0; slot < attention_aux_slots; ++slot)
    for (int64 i = block_index() * aux_threads + thread_index(); i < aux.lengths[slot]; i += aux.stride) {
      const int64 element = aux.first[slot] + i;
      float sum = 0.0f;
      if constexpr (backward.exact_aux) {
        constexpr uint32 infinity = 0x7f800000;
        const uint32 largest = workspace_words(params, aux.largest_at)[element];
        if (largest >= infinity)
          sum = float_of(0x7fffffff);
        else if (largest != 0)
          sum = static_cast<float>(
              static_cast<double>(reinterpret_cast<const int64*>(params.attention.workspace + aux.sums_at)[element]) *
              power_of_two(unit_exponent(aux, largest)));
      } else {
        sum = workspace_floats(params, aux.sums_at)[element];
      }
      aux.to[slot][i] = backward.accumulate ? add(aux.to[slot][i], sum) : sum;
    }
}

/// A thread's sums of the terms of neighbouring pairs. All lanes of a warp call its functions together.
template <AuxPass pass>
class AuxSums {
 public:
  __device__ __forceinline__ AuxSums(const AttentionBackwardParams& params, const AuxGradients& aux)
      : params_(params), aux_(aux) {
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      elements_[i] = -1;
      sums_[i] = 0.0f;
    }
  }

  /// Adds the terms of a pair whose score has the gradient `score_gradient`, where that is not 0. `term`: a function of the
  /// number of a read.
  template <typename TermOf>
  __device__ __forceinline__ void include(float score_gradient, const TermOf& term) {
    const bool counts = score_gradient != 0.0f;
    int reads = counts ? 1 : 0;
    const auto take = [&](int read) {
      dual_numbers::Term found = {0.0f, -1, 0};
      if (read < reads) {
        found = term(read);
        reads = found.reads;
        if (found.derivative == 0.0f) found.element = -1;
      }
      return found;
    };
#pragma unroll
    for (int read = 0; read < kept; ++read) {
      if (read > 0 && ballot(reads > read) == 0) return;
      const dual_numbers::Term found = take(read);
      const float value = multiply(score_gradient, found.derivative);
      const bool other = found.element >= 0 && found.element != elements_[read];
      flush(read, other && elements_[read] >= 0);
      if (other) {
        elements_[read] = found.element;
        sums_[read] = value;
      } else if (found.element >= 0) {
        sums_[read] = add(sums_[read], value);
      }
    }
#pragma unroll 1
    for (int read = kept; read < reads; ++read) {
      const dual_numbers::Term found = take(read);
      if (found.element >= 0) add_to(found.element, multiply(score_gradient, found.derivative));
    }
  }
  /// Adds the remaining sums.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int read = 0; read < kept; ++read) flush(read, elements_[read] >= 0);
  }

 private:
  static constexpr int kept = 2;  ///< reads of a pair

  /// Adds the sums of the lanes that `mine` is true for.
  __device__ __forceinline__ void flush(int read, bool mine) const {
    const uint32 lanes = ballot(mine);
    if (lanes == 0) return;
    if (lanes == 0xffffffffu && ballot(elements_[read] == shuffle(elements_[read], 0)) == 0xffffffffu) {
      const float sum = reduce_lanes<32>(sums_[read], Sum());
      if (lane_index() == 0) add_to(elements_[read], sum);
    } else if (mine) {
      add_to(elements_[read], sums_[read]);
    }
  }
  __device__ __forceinline__ void add_to(int64 element, float sum) const {
    if constexpr (pass == AuxPass::add) {
      atomic_add_float(workspace_floats(params_, aux_.sums_at) + element, sum);
    } else if constexpr (pass == AuxPass::largest) {
      atomic_maximum(workspace_words(params_, aux_.largest_at) + element, bits_of(absolute(sum)));
    } else {
      const uint32 largest = workspace_words(params_, aux_.largest_at)[element];
      if (largest == 0 || largest >= 0x7f800000) return;
      const auto count = static_cast<int64>(static_cast<double>(sum) * power_of_two(-unit_exponent(aux_, largest)));
      atomic_add_integer(reinterpret_cast<uint64*>(params_.attention.workspace + aux_.sums_at) + element,
                         static_cast<uint64>(count));
    }
  }

  const AttentionBackwardParams& params_;
  const AuxGradients& aux_;
  int64 elements_[kept];
  float sums_[kept];
};

/// The Q tile of a block. The main kernels may have tiles of another size.
template <const AttentionShape& shape, int tile_q>
struct AuxBlock : BlockOfQueries<shape, tile_q> {
  __device__ __forceinline__ explicit AuxBlock(const AttentionParams& params) : BlockOfQueries<shape, tile_q>(params) {
    this->tile = (params.seq_q + tile_q - 1) / tile_q - 1 - static_cast<int>(block_index() / params.heads / params.batch);
    this->first_q = this->tile * tile_q;
    const int end = this->first_q + tile_q, queries = this->sequence.seq_q;
    this->last_q = (end < queries ? end : queries) - 1;
  }
};

/// Statistics of a head's queries, as the first kernel of the variant has stored them.
template <const AttentionShape& shape, const BackwardShape& backward>
__device__ __forceinline__ RowStatistics aux_statistics(const AttentionBackwardParams& params, const Sequence& sequence,
                                                        int batch, int head) {
  RowStatistics statistics = statistics_of<shape>(params, sequence, batch, head);
  if constexpr (shape.varlen && backward.padded) {  // rows are padded
    const int start = static_cast<int>(sequence.q_start), moved = padded_start(batch, start) - start;
    statistics.lse += moved;
    statistics.delta += moved;
  }
  return statistics;
}

/// Scores that score_mod sees, and their gradients, of a tile in shared memory.
template <int tile_q, int tile_kv>
struct AuxTile {
  static_assert((tile_kv & (tile_kv - 1)) == 0, "diagonals end at the last key and go on at the first one");
  static constexpr int stride = tile_kv + 8, gradients_at = tile_q * stride, bytes = 2 * tile_q * stride * 4;

  float* scores;

  __device__ __forceinline__ void store(int row, int column, float score, float gradient) const {
    scores[row * stride + column] = score;
    scores[gradients_at + row * stride + column] = gradient;
  }

  /// Adds the terms of all pairs. All threads of the block together.
  template <typename Modification, int threads, AuxPass pass>
  __device__ __forceinline__ void include(AuxSums<pass>& sums, const AttentionParams& params, const AuxGradients& aux,
                                          int batch, int head, int first_q, int first_k) const {
    constexpr int parts = threads > tile_kv ? threads / tile_kv : 1, rows = tile_q / parts;  // of a diagonal
    static_assert(tile_q % parts == 0 && tile_kv * parts % 32 == 0, "warps are complete");
    for (int line = thread_index(); line < tile_kv * parts; line += threads) {
#pragma unroll 1
      for (int step = 0; step < rows; ++step) {
        const int row = line / tile_kv * rows + step, column = (line + row) & (tile_kv - 1), at = row * stride + column;
        sums.include(scores[gradients_at + at], [&](int read) {
          return Modification::aux_term(scores[at], batch, head, first_q + row, first_k + column, params.aux, aux.first,
                                        read);
        });
      }
    }
  }
};

/// Replaces params.scores by the derivatives of score_mod by one of the elements that it reads, 0 where mask_mod masks the
/// pair, to check gradients against the reference.
template <const AttentionShape& shape, typename Modification>
__device__ __forceinline__ void evaluate_aux_terms(const AuxTermParams& params) {
  const ModificationParams& all = params.modification;
  for (int64 i = block_index() * modification_threads + thread_index(); i < all.rows * all.keys; i += all.stride) {
    const int* const place = all.places + i / all.keys * 5;
    const auto key = static_cast<int>(i % all.keys);
    const int batch = place[0], head = place[1], query = place[2];
    bool keeps = key < place[4];
    if constexpr (shape.mask_mod) keeps = keeps && Modification::keeps(batch, head, query, place[3] + key, all.aux);
    dual_numbers::Term found = {0.0f, -1, 0};
    if (keeps)
      found =
          Modification::aux_term(all.scores[i], batch, head, query, place[3] + key, all.aux, params.first, params.wanted);
    all.scores[i] = found.derivative;
    params.elements[i] = params.wanted < found.reads ? found.element : -1;
  }
}

}  // namespace tunesmith
