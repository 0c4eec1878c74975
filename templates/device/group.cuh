// Cooperative groups that share a row: lanes of a warp, a block, a cluster, or several co-resident blocks of a grid.
//
// All of them have
//   group_size, threads     threads of the group, and of a block;
//   thread_rank()           the rank of this thread in the group;
//   first_row()             the row of the group; if takes_many, its first row, followed by every row_step()-th one;
//   start()                 called between the loads of a row and its first reduction, to issue the group's own loads;
//   reduce<slot>()          over all threads of the group. Each `slot` has its own shared memory, so one barrier suffices.
// Groups of several blocks are `distant`: exchange() gives every block the values of all blocks, so values are first reduced
// within each block. The threads of `Takers` then combine what exchange() gave them.
#pragma once

#include "device/reduce.cuh"

namespace tunesmith {

/// `lanes` neighbouring lanes of a warp; a block of `threads` threads holds threads / lanes groups.
template <int block_threads, int lanes>
struct LaneGroup {
  static constexpr bool distant = false;
  static constexpr bool takes_many = false;
  static constexpr int group_size = lanes;
  static constexpr int threads = block_threads;
  __device__ __forceinline__ LaneGroup(void*, int64) {}
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ int thread_rank() const { return thread_index() % lanes; }
  __device__ __forceinline__ int64 first_row() const {
    return block_index() * (block_threads / lanes) + thread_index() / lanes;
  }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    return reduce_lanes<lanes>(value, reduction);
  }
};

template <int block_threads>
struct BlockGroup {
  static constexpr bool distant = false;
  static constexpr bool takes_many = false;
  static constexpr int group_size = block_threads;
  static constexpr int threads = block_threads;
  static constexpr int warps = block_threads / 32;

  __device__ __forceinline__ BlockGroup(void*, int64) {}
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ int thread_rank() const { return thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index(); }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    value = reduce_lanes<32>(value, reduction);
    if constexpr (warps > 1) {
      TUNESMITH_SHARED(Value, partials, warps);
      if (lane_index() == 0) partials[warp_index()] = value;
      sync_block();
      // Groups of lanes combine the results of the warps, in as few steps as these need.
      constexpr int lanes = lanes_for(warps);
      const int lane = lane_index() % lanes;
      value = reduce_lanes<lanes>(lane < warps ? partials[lane] : Reduction::identity(), reduction);
    }
    return value;
  }
};

/// reduce() for groups of several blocks: within each block, between blocks, and among the lanes that took the values.
template <int slot, typename Group, typename Value, typename Reduction>
__device__ __forceinline__ Value reduce_distant(Group& group, Value value, Reduction reduction) {
  value = BlockGroup<Group::threads>(nullptr, 0).template reduce<2 * slot>(value, reduction);
  Value all = Reduction::identity();
  group.exchange(value, [&](const Value& other) { all = reduction(all, other); });
  return typename Group::Takers(nullptr, 0).template reduce<2 * slot + 1>(all, reduction);
}

/// `blocks` blocks of a cooperatively launched grid; each group processes several rows. Values pass through global memory
/// with a tag next to each (NCCL's LL protocol), so an exchange costs one store and one load and no grid barrier.
///
/// The tag is the number of the exchange. Words are double-buffered: a block that is one exchange ahead cannot overwrite
/// values that a slower block has yet to read, and no block gets two ahead. Tags persist between launches, so the workspace
/// is zeroed only once.
template <int block_threads, int blocks>
struct GridGroup {
  static constexpr bool distant = true;
  static constexpr bool takes_many = true;
  static constexpr int group_size = block_threads * blocks;
  static constexpr int threads = block_threads;
  static constexpr int max_words = 8;  // per value; four words share a sector of L2

  using Takers = BlockGroup<block_threads>;

  uint64* words;  // of this group: [2][blocks][max_words]
  int64 groups;   // number of groups in the grid
  uint32 tag;     // tag of the last exchange
  bool started = false;

  __device__ __forceinline__ GridGroup(void* workspace, int64 groups_in_grid)
      : words(static_cast<uint64*>(workspace) + block_index() / blocks * (2 * blocks * max_words)), groups(groups_in_grid) {}
  /// Reads the tags. This also brings the sectors of the exchange into L2.
  __device__ __forceinline__ void start() {
    if (started) return;
    started = true;
    const uint32 even = tag_of(word(0, rank()));
    const uint32 odd = tag_of(word(1, rank()));
    tag = static_cast<int>(even - odd) > 0 ? even : odd;
  }
  __device__ __forceinline__ static int rank() { return static_cast<int>(block_index() % blocks); }
  __device__ __forceinline__ int thread_rank() const { return rank() * block_threads + thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index() / blocks; }
  __device__ __forceinline__ int64 row_step() const { return groups; }
  __device__ __forceinline__ uint64* word(int parity, int block) const {
    return words + (parity * blocks + block) * max_words;
  }

  /// `own` is the same in all threads of a block and consists of at most max_words floats, or half as many doubles. Calls
  /// take(other) once for each block, in as many threads as possible.
  template <typename Value, typename Take>
  __device__ __forceinline__ void exchange(const Value& own, const Take& take) {
    constexpr int count = sizeof(Value) / sizeof(float);
    static_assert(count <= max_words, "there are words for so much");
    ++tag;
    const int parity = static_cast<int>(tag & 1);
    // One lane per word, so that all are stored at once.
    const auto* const own_floats = reinterpret_cast<const float*>(&own);
    uint32 mine = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) mine = thread_index() == i ? bits_of(own_floats[i]) : mine;
    if (thread_index() < count) publish(word(parity, rank()) + thread_index(), tag, mine);
    for (int block = thread_index(); block < blocks; block += block_threads) {
      uint32 bits[count];
      await_each(word(parity, block), 1, tag, bits);
      Value other;
      auto* const floats = reinterpret_cast<float*>(&other);
#pragma unroll
      for (int i = 0; i < count; ++i) floats[i] = float_of(bits[i]);
      take(other);
    }
  }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    return reduce_distant<slot>(*this, value, reduction);
  }
};

/// True if a block without a row may exit. False if a warp contains several groups, because its shuffles need all lanes.
template <typename Group>
constexpr bool groups_stay_whole = Group::group_size >= 32;

/// Calls body(row, exists) for each row of the group; `rows` is the total. `exists` is false for a group without a row whose
/// lanes are needed in shuffles: it repeats the last row and must not store anything.
template <typename Group, typename Body>
__device__ __forceinline__ void over_rows(const Group& group, int64 rows, const Body& body) {
  int64 row = group.first_row();
  const bool exists = row < rows;
  if (!exists) {
    if (groups_stay_whole<Group>) return;  // a folded grid has surplus blocks
    row = rows - 1;
  }
  if constexpr (Group::takes_many) {
    for (; row < rows; row += group.row_step()) body(row, true);
  } else {
    body(row, exists);
  }
}

}  // namespace tunesmith
