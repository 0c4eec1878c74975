// Dropout of attention weights: which pairs of a query and a key are dropped. The mask depends on seed, offset, batch entry,
// query head, query and key only, so that all kernels, forward and backward, have the same one.
//
// One Philox call serves the four pairs of queries i, i + 8 and keys j, j + 8, where i and j are without bit 3. A lane holds
// all four in every layout of accumulators of tensor cores: those of S, whose rows are queries and 8 apart, and those of
// S^T, whose rows are keys. No number is computed twice, and lanes exchange none.
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
  }

  /// Bits of accumulators, see DroppedBits.
  template <bool keys_in_rows, int count>
  using Bits = DroppedBits<keys_in_rows, count>;

  /// What the weights that are kept are multiplied by.
  static __device__ __forceinline__ float factor_of(const AttentionDropout* params) { return params->factor; }
  __device__ __forceinline__ bool drops(int query, int key) const {
    const Philox random = numbers_of(query, key);
    const uint32 pair[2] = {(key & 8) != 0 ? random.numbers[1] : random.numbers[0],
                            (key & 8) != 0 ? random.numbers[3] : random.numbers[2]};
    return ((query & 8) != 0 ? pair[1] : pair[0]) < threshold_;
  }

  /// Calls visit(i, whether its pair is dropped) for each of a lane's `count` accumulators, as QuadSoftmax has them. `row`
  /// and `column`: query and key of the first one; with `keys_in_rows` key and query.
  template <bool keys_in_rows, int count, typename Visit>
  __device__ __forceinline__ void over_accumulators(int row, int column, const Visit& visit) const {
#pragma unroll
    for (int pair = 0; pair < count / 8; ++pair)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int other = column + 16 * pair + e;
        const Philox random = keys_in_rows ? numbers_of(other, row) : numbers_of(row, other);
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            visit(8 * pair + 4 * n + 2 * r + e, random.numbers[keys_in_rows ? 2 * n + r : 2 * r + n] < threshold_);
      }
  }

 private:
  /// The number of the pair is that of index 2 * (bit 3 of query) + (bit 3 of key).
  __device__ __forceinline__ Philox numbers_of(int query, int key) const {
    return {key_, without_bit_3(query), without_bit_3(key), head_, batch_};
  }
  static __device__ __forceinline__ uint32 without_bit_3(int position) {
    return static_cast<uint32>(position >> 4 << 3 | (position & 7));
  }

  uint64 key_;
  uint32 batch_, head_, threshold_;
};

/// Bits of the accumulators that are dropped, for code that visits them in another order.
template <bool keys_in_rows, int count>
struct DroppedBits {
  uint32 words[(count + 31) / 32];

  __device__ __forceinline__ DroppedBits(const DroppedPairs& pairs, int row, int column) : words{} {
    pairs.over_accumulators<keys_in_rows, count>(
        row, column, [&](int i, bool dropped) { words[i / 32] |= static_cast<uint32>(dropped) << i % 32; });
  }
  __device__ __forceinline__ bool operator[](int i) const { return (words[i / 32] >> i % 32 & 1) != 0; }
};

}  // namespace tunesmith
