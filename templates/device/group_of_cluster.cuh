// The blocks of a cluster as a group that shares a row (sm_90 and later).
#pragma once

#include "device/bulk.cuh"
#include "device/group.cuh"

#if TUNESMITH_SM >= 900

namespace tunesmith {

/// `blocks` blocks of a cluster. They exchange values through distributed shared memory. On sm_90a an mbarrier in the
/// receiver's shared memory counts the bytes; a cluster barrier, which other architectures use, has fences that wait for
/// stores and empty L1.
template <int block_threads, int blocks>
struct ClusterGroup {
  static constexpr bool distant = true;
  static constexpr bool takes_many = false;
  static constexpr int group_size = block_threads * blocks;
  static constexpr int threads = block_threads;

  static constexpr int taking_lanes = lanes_for(blocks);
  using Takers = LaneGroup<block_threads, taking_lanes>;

  int exchanges = 0;  ///< so far

  // Arrives at the cluster barrier: no block may access the shared memory of a block that has not started.
  __device__ __forceinline__ ClusterGroup(void*, int64) {
#if TUNESMITH_HAS_SM90A
    if (thread_index() == 0) {
      for (int i = 0; i < 2; ++i) barrier_init(shared_address(&barriers()[i]), 1);
      barriers_ready();
    }
    sync_warp();
    cluster_arrive_relaxed();
#else
    cluster_arrive();
#endif
  }
  __device__ __forceinline__ void start() { cluster_wait(); }
  __device__ __forceinline__ int thread_rank() const { return cluster_rank() * block_threads + thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index() / blocks; }

  /// `own` is the same in all threads of a block. Calls take(other) once for each block in each group of `Takers`, in as
  /// many lanes.
  template <typename Value, typename Take>
  __device__ __forceinline__ void exchange(const Value& own, const Take& take) {
    // Double-buffered: a block that is one exchange ahead must not overwrite values that a slower block has yet to read.
    // A block barrier precedes each exchange, so every warp has read the values of the previous one.
    const int turn = exchanges & 1, lane = lane_index() % taking_lanes;
#if TUNESMITH_HAS_SM90A
    constexpr int vectors = (static_cast<int>(sizeof(Value)) + 15) / 16;
    struct alignas(16) Message {
      Value value;
    };
    TUNESMITH_SHARED(Message, all, 2 * blocks);
    Message* const set = all + turn * blocks;
    const uint32 barrier = shared_address(&barriers()[turn]);
    if (thread_index() == 0) barrier_arrive_expecting(barrier, blocks * static_cast<int>(sizeof(Message)));
    if (thread_index() < blocks) {
      constexpr int count = static_cast<int>(sizeof(Value)) / 4;
      const union {
        Value value;
        uint32 bits[count];
      } words = {own};
      const uint32 to = address_of_rank(shared_address(&set[cluster_rank()]), thread_index());
      const uint32 there = address_of_rank(barrier, thread_index());
      const auto word = [&](int i) { return i < count ? words.bits[i < count ? i : 0] : 0u; };
#pragma unroll
      for (int i = 0; i < vectors; ++i)
        send_async(to + 16 * i, word(4 * i), word(4 * i + 1), word(4 * i + 2), word(4 * i + 3), there);
    }
    barrier_wait_cluster(barrier, static_cast<uint32>(exchanges >> 1) & 1u);
    if (lane < blocks) take(set[lane].value);
#else
    TUNESMITH_SHARED(Value, all, 2 * blocks);
    Value* const set = all + turn * blocks;
    if (thread_index() < blocks) *shared_of_rank(&set[cluster_rank()], thread_index()) = own;
    sync_cluster();
    if (lane < blocks) take(set[lane]);
#endif
    ++exchanges;
  }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    return reduce_distant<slot>(*this, value, reduction);
  }

 private:
#if TUNESMITH_HAS_SM90A
  static __device__ __forceinline__ uint64* barriers() {
    TUNESMITH_SHARED(uint64, words, 2);
    return words;
  }
#endif
};

}  // namespace tunesmith

#endif
