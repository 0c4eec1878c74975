// Who shares a row: lanes of a warp, a block, a cluster, or several blocks of a grid whose blocks are all resident. A team
// knows which rows are its own, which member of it a thread is, and how a value is reduced over all members.
//
// All teams offer
//   members, threads        of the team, and of a block;
//   member()                this thread's number among the members;
//   first_row()             the team's row; the first one of several where a team takes_many, each row_step() further on;
//   start()                 called between the loads of a row and its first reduction, so that what the team needs for
//                           itself comes behind them;
//   reduce<slot>()          over all members. `slot` tells the reductions of one row apart: each has its own shared memory,
//                           and one barrier suffices.
// Teams of several blocks are `distant`: they have combine() as well, by which the warps' parts of a row meet once, whatever
// those parts are.
#pragma once

#include "device/reduce.cuh"

namespace tunesmith {

/// `lanes` neighbouring lanes of a warp; a block of `threads` threads holds threads / lanes such teams.
template <int block_threads, int lanes>
struct LaneTeam {
  static constexpr bool distant = false;
  static constexpr bool takes_many = false;
  static constexpr int members = lanes;
  static constexpr int threads = block_threads;
  __device__ __forceinline__ LaneTeam(void*, int64) {}
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ int member() const { return thread_index() % lanes; }
  __device__ __forceinline__ int64 first_row() const {
    return block_index() * (block_threads / lanes) + thread_index() / lanes;
  }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    return reduce_lanes<lanes>(value, reduction);
  }
};

template <int block_threads>
struct BlockTeam {
  static constexpr bool distant = false;
  static constexpr bool takes_many = false;
  static constexpr int members = block_threads;
  static constexpr int threads = block_threads;
  static constexpr int warps = block_threads / 32;

  __device__ __forceinline__ BlockTeam(void*, int64) {}
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ int member() const { return thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index(); }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    value = reduce_lanes<32>(value, reduction);
    if constexpr (warps > 1) {
      TUNESMITH_SHARED(Value, partials, warps);
      if (lane_index() == 0) partials[warp_index()] = value;
      sync_block();
      value = lane_index() < warps ? partials[lane_index()] : Reduction::identity();
      value = reduce_lanes<32>(value, reduction);
    }
    return value;
  }
};

/// A reduction as what combine() gathers into.
template <typename Value, typename Reduction>
struct Gathered {
  Value value = Reduction::identity();
  Reduction reduction;

  __device__ __forceinline__ void include(const Value& other) { value = reduction(value, other); }
  __device__ __forceinline__ Value over_warp() const { return reduce_lanes<32>(value, reduction); }
};

/// reduce() of a distant team.
template <typename Team, typename Value, typename Reduction>
__device__ __forceinline__ Value reduce_distant(Team& team, Value value, Reduction reduction) {
  return team.combine(reduce_lanes<32>(value, reduction), [] { return Gathered<Value, Reduction>(); });
}

#if TUNESMITH_SM >= 900
/// `blocks` blocks of a cluster, which meet in each other's shared memory: one barrier over the cluster for each time.
template <int block_threads, int blocks>
struct ClusterTeam {
  static constexpr bool distant = true;
  static constexpr bool takes_many = false;
  static constexpr int members = block_threads * blocks;
  static constexpr int threads = block_threads;
  static constexpr int warps = block_threads / 32;  // of a block

  int turn = 0;

  // Nobody may touch the memory of a block that has not started.
  __device__ __forceinline__ ClusterTeam(void*, int64) { cluster_arrive(); }
  __device__ __forceinline__ void start() { cluster_wait(); }
  __device__ __forceinline__ int member() const { return cluster_rank() * block_threads + thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index() / blocks; }

  /// `own` is the same in all lanes of a warp. What the warps of the team have is gathered: make() gives something that can
  /// include(Value), and whose over_warp() is, in every lane, what the lanes of a warp have included between them. Every
  /// thread of the team gets that of all, and the same bits.
  template <typename Value, typename Make>
  __device__ __forceinline__ Value combine(const Value& own, const Make& make) {
    // Two sets take turns: a block that is one exchange ahead must not overwrite what a slower one has yet to read.
    TUNESMITH_SHARED(Value, all, 2 * blocks * warps);
    Value* const set = all + turn * (blocks * warps);
    turn ^= 1;
    if (lane_index() < blocks) *shared_of_rank(&set[cluster_rank() * warps + warp_index()], lane_index()) = own;
    sync_cluster();
    auto gathered = make();
    for (int i = lane_index(); i < blocks * warps; i += 32) gathered.include(set[i]);
    return gathered.over_warp();
  }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    return reduce_distant(*this, value, reduction);
  }
};
#endif

/// `blocks` blocks of a grid that is launched cooperatively. Groups of so many blocks take row after row; within a group a
/// value goes through global memory with its tag beside it (as in NCCL's low-latency protocol), so that an exchange costs
/// one store and one load, and no barrier over the grid.
///
/// Each exchange has a number, which is the tag. Two sets of words take turns: a block that is one exchange ahead cannot
/// overwrite what a slower one has yet to read, and none can be two ahead. Words keep their tags from launch to launch, so
/// nothing has to be cleared; the workspace is zeroed once.
template <int block_threads, int blocks>
struct GridTeam {
  static constexpr bool distant = true;
  static constexpr bool takes_many = true;
  static constexpr int members = block_threads * blocks;
  static constexpr int threads = block_threads;
  static constexpr int warps = block_threads / 32;  // of a block
  static constexpr int max_words = 8;               // of a value; up to four lie in one sector of the L2 cache

  uint64* words;  // of this team: [2][blocks][max_words]
  int64 teams;    // in the grid
  uint32 tag;     // of the last exchange
  bool started = false;

  __device__ __forceinline__ GridTeam(void* workspace, int64 teams_in_grid)
      : words(static_cast<uint64*>(workspace) + block_index() / blocks * (2 * blocks * max_words)), teams(teams_in_grid) {}
  /// Reads the tags, which also brings the sectors that exchanges need into the L2 cache.
  __device__ __forceinline__ void start() {
    if (started) return;
    started = true;
    const uint32 even = tag_of(word(0, rank()));
    const uint32 odd = tag_of(word(1, rank()));
    tag = static_cast<int>(even - odd) > 0 ? even : odd;
  }
  __device__ __forceinline__ static int rank() { return static_cast<int>(block_index() % blocks); }
  __device__ __forceinline__ int member() const { return rank() * block_threads + thread_index(); }
  __device__ __forceinline__ int64 first_row() const { return block_index() / blocks; }
  __device__ __forceinline__ int64 row_step() const { return teams; }
  __device__ __forceinline__ uint64* word(int parity, int block) const {
    return words + (parity * blocks + block) * max_words;
  }

  /// As ClusterTeam's; a value is made of up to max_words floats. One warp of each block does the talking.
  template <typename Value, typename Make>
  __device__ __forceinline__ Value combine(const Value& own, const Make& make) {
    TUNESMITH_SHARED(Value, of_warps, warps);
    TUNESMITH_SHARED(Value, of_all, 1);
    ++tag;
    if (lane_index() == 0) of_warps[warp_index()] = own;
    sync_block();
    if (warp_index() == 0) {
      auto gathered = make();
      if (lane_index() < warps) gathered.include(of_warps[lane_index()]);
      const Value all = exchange(gathered.over_warp(), make);
      if (lane_index() == 0) of_all[0] = all;
    }
    sync_block();
    return of_all[0];
  }

  template <int slot, typename Value, typename Reduction>
  __device__ __forceinline__ Value reduce(Value value, Reduction reduction) {
    return reduce_distant(*this, value, reduction);
  }

 private:
  /// combine() for one warp of each block.
  template <typename Value, typename Make>
  __device__ __forceinline__ Value exchange(const Value& own, const Make& make) {
    constexpr int count = sizeof(Value) / sizeof(float);
    static_assert(count <= max_words, "there are words for so much");
    const int parity = static_cast<int>(tag & 1);
    const auto* const own_floats = reinterpret_cast<const float*>(&own);
    uint32 mine = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) mine = lane_index() == i ? bits_of(own_floats[i]) : mine;
    if (lane_index() < count) publish(word(parity, rank()) + lane_index(), tag, mine);
    auto gathered = make();
    for (int block = lane_index(); block < blocks; block += 32) {
      uint32 bits[count];
      await_each(word(parity, block), 1, tag, bits);
      Value other;
      auto* const floats = reinterpret_cast<float*>(&other);
#pragma unroll
      for (int i = 0; i < count; ++i) floats[i] = float_of(bits[i]);
      gathered.include(other);
    }
    return gathered.over_warp();
  }
};

/// Whether every thread of the block can skip the shuffles of a team that has no row: not the lanes of a warp, which belong
/// to several teams.
template <typename Team>
constexpr bool teams_stay_whole = Team::members >= 32;

/// Calls body(row, exists) for each row of a team, of `rows` in all. `exists` is false for a team that has no row but whose
/// lanes others need in their shuffles: it follows along with the last row, and must store nothing.
template <typename Team, typename Body>
__device__ __forceinline__ void over_rows(const Team& team, int64 rows, const Body& body) {
  int64 row = team.first_row();
  const bool exists = row < rows;
  if (!exists) {
    if (teams_stay_whole<Team>) return;  // the grid is folded when there are more rows than one dimension has places
    row = rows - 1;
  }
  if constexpr (Team::takes_many) {
    for (; row < rows; row += team.row_step()) body(row, true);
  } else {
    body(row, exists);
  }
}

}  // namespace tunesmith
