// A block or cluster that shares rows of a program, and its reductions: one barrier for each, whatever the number of rows
// that are reduced together.
//
// The blocks of a cluster send partial results to each other. On sm_90a an mbarrier in the receiver's shared memory counts
// their bytes. A cluster barrier has a fence, which waits for all earlier stores to global memory, such as the last row's:
// microseconds on a GPU that is busy with memory.
#pragma once

#include "device/bulk.cuh"
#include "row/reductions/combined_reductions.cuh"

namespace tunesmith {

/// A value for each row of a batch.
template <typename Value, int rows>
struct OfRows {
  Value row[rows];
};
template <int count, typename Number>
__device__ __forceinline__ Floats<count, Number> shuffle(Floats<count, Number> floats, int source) {
#pragma unroll
  for (int i = 0; i < count; ++i) floats.value[i] = shuffle(floats.value[i], source);
  return floats;
}

/// `blocks` blocks of a cluster, or a single block. All threads of the group get the same results.
template <int block_threads, int blocks>
struct ProgramGroup {
  static constexpr int group_size = block_threads * blocks;
  static constexpr int threads = block_threads;
  static constexpr int warps = block_threads / 32;
  static constexpr int parts = warps * blocks;  ///< warps of the group
  static constexpr bool counts_messages = blocks > 1 && TUNESMITH_HAS_SM90A;

  int reductions = 0;  ///< so far

  __device__ __forceinline__ ProgramGroup() {
#if TUNESMITH_SM >= 900
    if constexpr (blocks > 1) {
#if TUNESMITH_HAS_SM90A
      if (thread_index() == 0) {
        for (int i = 0; i < 2; ++i) barrier_init(shared_address(&barriers()[i]), 1);
        barriers_ready();
      }
      sync_warp();
#endif
      cluster_arrive();
    }
#endif
  }
  /// Called before the first reduce(): no block may access the shared memory of a block that has not started.
  __device__ __forceinline__ void start() const {
#if TUNESMITH_SM >= 900
    if constexpr (blocks > 1) cluster_wait();
#endif
  }
  __device__ __forceinline__ int thread_rank() const { return rank() * block_threads + thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index() / blocks; }

  /// Reduces a value of each row of a batch. `lanes` neighbouring lanes take a row: each exchange within a warp reduces
  /// several rows at once. Every warp sends its partial results to all blocks and combines the results of all warps.
  template <int floats, typename Number, int rows, typename Reduction>
  __device__ __forceinline__ OfRows<Floats<floats, Number>, rows> reduce_rows(OfRows<Floats<floats, Number>, rows> values,
                                                                              Reduction reduction) {
    constexpr int lanes = 32 / rows;
    split_rows<rows, 16>(values.row, reduction);
    Floats<floats, Number> value = reduce_lanes<lanes>(values.row[0], reduction);
    if constexpr (parts > 1) {
      // Messages have multiples of 16 bytes. Double-buffered: a warp that is one reduction ahead must not overwrite what a
      // slower one has yet to read.
      constexpr int each = 16 / sizeof(Number);
      using Part = Floats<counts_messages ? (floats + each - 1) / each * each : floats, Number>;
      TUNESMITH_SHARED(Part, partials, 2 * rows * parts);
      const int lane = lane_index() % lanes, turn = reductions & 1;
      Part* const set = partials + (turn * rows + lane_index() / lanes) * parts;
      Part own{};
#pragma unroll
      for (int i = 0; i < floats; ++i) own.value[i] = value.value[i];
      if constexpr (counts_messages)
        send(&set[rank() * warps + warp_index()], own, lane, lanes, turn, rows * parts * static_cast<int>(sizeof(Part)));
      else
        share(set, own, lane, lanes);
      ++reductions;
      constexpr int across = lanes_for(parts) < lanes ? lanes_for(parts) : lanes;
      value = lane % across < parts ? floats_of<floats>(set[lane % across]) : Reduction::identity();
#pragma unroll
      for (int i = lanes; i < parts; i += lanes)
        if (i + lane < parts) value = reduction(value, floats_of<floats>(set[i + lane]));
      value = reduce_lanes<across>(value, reduction);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) values.row[r] = rows == 1 ? value : shuffle(value, r * lanes);
    return values;
  }

 private:
  /// Returns the rank of this block in the group.
  static __device__ __forceinline__ int rank() {
#if TUNESMITH_SM >= 900
    if constexpr (blocks > 1) return cluster_rank();
#endif
    return 0;
  }
  /// Lanes with bit `distance` keep the upper half of the rows, the others the lower half; value 0 becomes the lane's own.
  template <int rows, int distance, typename Value, typename Reduction>
  static __device__ __forceinline__ void split_rows(Value* values, Reduction reduction) {
    if constexpr (rows > 1) {
      constexpr int half = rows / 2;
      const bool upper = (lane_index() & distance) != 0;
#pragma unroll
      for (int r = 0; r < half; ++r) {
        const Value sent = upper ? values[r] : values[half + r], kept = upper ? values[half + r] : values[r];
        values[r] = reduction(kept, shuffle_xor(sent, distance));
      }
      split_rows<half, distance / 2>(values, reduction);
    }
  }
  template <int floats, int all, typename Number>
  static __device__ __forceinline__ Floats<floats, Number> floats_of(const Floats<all, Number>& part) {
    Floats<floats, Number> result;
#pragma unroll
    for (int i = 0; i < floats; ++i) result.value[i] = part.value[i];
    return result;
  }
  template <typename Part>
  static __device__ __forceinline__ uint32 word_of(const Part& part, int i) {
    if constexpr (sizeof(part.value[0]) == 4)
      return bits_of(part.value[i]);
    else
      return i % 2 == 0 ? low_bits_of(part.value[i / 2]) : high_bits_of(part.value[i / 2]);
  }
  /// Stores this warp's part of each row where all threads of the group find it, and waits for the others.
  template <typename Part>
  __device__ __forceinline__ void share(Part* set, const Part& own, int lane, int lanes) const {
    if constexpr (blocks > 1) {
#if TUNESMITH_SM >= 900
#pragma unroll
      for (int block = 0; block < blocks; block += lanes)
        if (block + lane < blocks) *shared_of_rank(&set[rank() * warps + warp_index()], block + lane) = own;
      sync_cluster();
#endif
    } else {
      if (lane == 0) set[warp_index()] = own;
      sync_block();
    }
  }
  /// share() with messages that the receiver counts. `expected`: bytes that a block receives.
  template <typename Part>
  __device__ __forceinline__ void send(Part* place, const Part& own, int lane, int lanes, int turn, int expected) const {
#if TUNESMITH_HAS_SM90A
    const uint32 barrier = shared_address(&barriers()[turn]), to = shared_address(place);
    if (thread_index() == 0) barrier_arrive_expecting(barrier, expected);
#pragma unroll
    for (int block = 0; block < blocks; block += lanes)
      if (block + lane < blocks)
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(Part)) / 16; ++i)
          send_async(address_of_rank(to + 16 * i, block + lane), word_of(own, 4 * i), word_of(own, 4 * i + 1),
                     word_of(own, 4 * i + 2), word_of(own, 4 * i + 3), address_of_rank(barrier, block + lane));
    barrier_wait_cluster(barrier, static_cast<uint32>(reductions >> 1) & 1u);
#endif
  }
#if TUNESMITH_HAS_SM90A
  /// A phase of a barrier is a reduction. Messages of the next reduction go to the other barrier. Messages of the reduction
  /// after it cannot come before all warps of the block have sent theirs of the next one.
  static __device__ __forceinline__ uint64* barriers() {
    TUNESMITH_SHARED(uint64, words, 2);
    return words;
  }
#endif
};

}  // namespace tunesmith
