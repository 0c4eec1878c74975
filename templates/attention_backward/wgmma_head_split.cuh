// The end of a block of attention_backward/wgmma.cuh if the blocks of a cluster share the query heads of a key head
// (`head_split`). Each block has summed dK and dV over its own query heads. The blocks add them up through distributed
// shared memory, in the place of Q and dO:
//
//   first    neighbours exchange: a block of even rank gets the other one's dV, a block of odd rank dK
//   then     for 4 and 8 blocks, ranks at a distance of 2, and of 4, are added to the lower one
//
// So rank 0 has all of dV, rank 1 all of dK, and the order of the additions is fixed.
#pragma once

#include "attention_backward/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct HeadSplit {
  using Tiles = WgmmaBackwardTiles<shape, config>;
  static constexpr int blocks = config.head_split, threads = 128 * Tiles::multipliers;
  static constexpr int wider = shape.head_dim > shape.head_dim_v ? shape.head_dim : shape.head_dim_v;
  static_assert(Tiles::q_at + threads * wider / 2 * 4 <= Tiles::ds_at, "the sums of a block fit into the place of Q and dO");

  const int rank, thread;  ///< thread: counted over all multipliers

  /// Takes part in the barriers of combine(). All other threads.
  static __device__ __forceinline__ void attend() {
    sync_warp();
#pragma unroll
    for (int distance = 1; distance < blocks; distance *= 2) {
      sync_cluster();
      sync_cluster();
    }
  }

  /// Sends this thread's sums to the same thread of another block.
  template <int count>
  __device__ __forceinline__ void send(const float (&sums)[count], int to) const {
    Bits<16>* const there = shared_of_rank(reinterpret_cast<Bits<16>*>(dynamic_shared() + Tiles::q_at), to) + thread;
#pragma unroll
    for (int i = 0; i < count / 4; ++i)
      there[i * threads] = {
          {bits_of(sums[4 * i]), bits_of(sums[4 * i + 1]), bits_of(sums[4 * i + 2]), bits_of(sums[4 * i + 3])}};
  }
  /// Adds the sums that another block has sent.
  template <int count>
  __device__ __forceinline__ void receive(float (&sums)[count]) const {
    const Bits<16>* const here = reinterpret_cast<const Bits<16>*>(dynamic_shared() + Tiles::q_at) + thread;
#pragma unroll
    for (int i = 0; i < count / 4; ++i) {
      const Bits<16> part = here[i * threads];
#pragma unroll
      for (int word = 0; word < 4; ++word) sums[4 * i + word] = add(sums[4 * i + word], float_of(part.word[word]));
    }
  }

  /// Adds the gradients of all blocks. All multipliers of the cluster together, once none of their products reads Q or dO.
  template <int dk_count, int dv_count>
  __device__ __forceinline__ void combine(float (&dk)[dk_count], float (&dv)[dv_count]) const {
    const bool odd = (rank & 1) != 0;
    sync_cluster();
    if (odd)
      send(dv, rank - 1);
    else
      send(dk, rank + 1);
    sync_cluster();
    if (odd)
      receive(dk);
    else
      receive(dv);
#pragma unroll
    for (int distance = 2; distance < blocks; distance *= 2) {
      const bool takes_part = (rank & (distance - 1)) < 2;
      sync_cluster();  // earlier sums have been read
      if (takes_part && (rank & distance) != 0) {
        if (odd)
          send(dk, rank - distance);
        else
          send(dv, rank - distance);
      }
      sync_cluster();
      if (takes_part && (rank & distance) == 0) {
        if (odd)
          receive(dk);
        else
          receive(dv);
      }
    }
  }
};

}  // namespace tunesmith

#endif
