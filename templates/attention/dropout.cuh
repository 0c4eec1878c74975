// Dropout of attention weights: which pairs of a query and a key are dropped. The mask depends on seed, offset, batch entry,
// query head, query and key only, so that all kernels, forward and backward, have the same one.
//
// One Philox call serves eight pairs, with 16 bits each: queries i and i + 8, keys j, j + 1, j + 8 and j + 9, where bit 3 of
// i, and bits 0 and 3 of j, are 0. A lane holds all of them among its accumulators of S, whose rows are queries. Of S^T,
// whose rows are keys, it holds half of them, and lane ^ 4 holds the other half: each makes every other call, and they
// exchange the outcomes of a whole tile in one word. So no number is computed twice.
#pragma once

#include "attention/attention.cuh"
#include "device/philox.cuh"

namespace tunesmith {

template <bool keys_in_rows, int count>
struct DroppedBits;

/// The pairs of one head of one batch entry.
class DroppedPairs {
 public:
  __device__ __forceinline__ DroppedPairs(const AttentionDropout* params, int batch, int head)
      : batch_(static_cast<uint32>(batch)), head_(static_cast<uint32>(head)), threshold_(params->threshold) {
    uint64 seed = params->seed, offset = params->offset;
    if (params->rng_state != nullptr) {
      seed = params->rng_state[0];
      offset = params->rng_state[1];
    }
    key_ = seed + offset * dropout_stream;
    // Uniform for the warp, in a way that the compiler sees: then the keys of all rounds take no vector instructions.
    key_ = uint64{shuffle(static_cast<uint32>(key_ >> 32), 0)} << 32 | shuffle(static_cast<uint32>(key_), 0);
  }

  /// Bits of accumulators, see DroppedBits.
  template <bool keys_in_rows, int count>
  using Bits = DroppedBits<keys_in_rows, count>;

  /// Factor of the weights that are not dropped.
  static __device__ __forceinline__ float factor_of(const AttentionDropout* params) { return params->factor; }

  /// One call computes the numbers of several pairs. A pair has half of word 2 * (bit 3 of query) + (bit 3 of key): the
  /// upper half for odd keys.
  __device__ __forceinline__ Philox numbers_of(int query, int key) const {
    return {key_, static_cast<uint32>(query >> 4 << 3 | (query & 7)), static_cast<uint32>(key >> 4 << 2 | (key >> 1 & 3)),
            head_, batch_};
  }
  /// Whether the number in the upper, or the lower, half of a word drops its pair.
  __device__ __forceinline__ bool upper_drops(uint32 word) const { return word < threshold_; }
  __device__ __forceinline__ bool lower_drops(uint32 word) const { return upper_drops(word << 16); }

  __device__ __forceinline__ bool drops(int query, int key) const {
    const Philox random = numbers_of(query, key);
    const uint32 words[2] = {(key & 8) != 0 ? random.numbers[1] : random.numbers[0],
                             (key & 8) != 0 ? random.numbers[3] : random.numbers[2]};
    const uint32 word = (query & 8) != 0 ? words[1] : words[0];
    return (key & 1) != 0 ? upper_drops(word) : lower_drops(word);
  }

  /// Calls visit(i, whether its pair is dropped) for each of a lane's `count` accumulators of S, as QuadSoftmax has them.
  /// `query` and `key`: of the first one.
  template <int count, typename Visit>
  __device__ __forceinline__ void over_accumulators(int query, int key, const Visit& visit) const {
#pragma unroll
    for (int pair = 0; pair < count / 8; ++pair) {
      const Philox random = numbers_of(query, key + 16 * pair);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32 word = random.numbers[2 * r + n];
          visit(8 * pair + 4 * n + 2 * r, lower_drops(word));
          visit(8 * pair + 4 * n + 2 * r + 1, upper_drops(word));
        }
    }
  }

 private:
  uint64 key_;
  uint32 batch_, head_, threshold_;
};

/// Bits of a lane's accumulators, of S or of S^T, that are dropped. Called by whole warps.
template <bool keys_in_rows, int count>
struct DroppedBits {
  static_assert(count <= 64, "a word has the bits of every other accumulator");
  uint32 words[2];  ///< of even and odd columns

  /// `row`, `column`: of the first accumulator.
  __device__ __forceinline__ DroppedBits(const DroppedPairs& pairs, int row, int column) : words{} {
    if constexpr (!keys_in_rows) {
      pairs.over_accumulators<count>(row, column,
                                     [&](int i, bool dropped) { words[i % 2] |= static_cast<uint32>(dropped) << place(i); });
    } else {
      const bool odd = (row & 1) != 0;
      uint32 mine = 0, other = 0;  // of this lane's key, of lane ^ 4's key
#pragma unroll
      for (int pair = 0; pair < count / 8; ++pair) {
        const Philox random = pairs.numbers_of(column + 16 * pair + (odd ? 1 : 0), row);
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const uint32 word = random.numbers[2 * n + r], swapped = word << 16;
            const int at = place(8 * pair + 4 * n + 2 * r);
            mine |= static_cast<uint32>(pairs.upper_drops(odd ? word : swapped)) << at;
            other |= static_cast<uint32>(pairs.upper_drops(odd ? swapped : word)) << at;
          }
      }
      other = shuffle_xor(other, 4);
      words[0] = odd ? other : mine;
      words[1] = odd ? mine : other;
    }
  }
  __device__ __forceinline__ bool operator[](int i) const { return (words[i % 2] >> place(i) & 1) != 0; }

 private:
  static __device__ __forceinline__ constexpr int place(int i) { return i / 2; }
};

}  // namespace tunesmith
