// Rows of later blocks, brought into L2 while this block computes its own.
//
// A block loads its row, then reduces and writes it, and has nothing to load meanwhile. Where the registers of a
// multiprocessor hold few bytes of rows, too few loads are in flight. A prefetch needs no registers: one thread starts it
// for the row of a block that starts about one memory latency later.
#pragma once

#include "row/row.cuh"

namespace tunesmith {

constexpr int64 no_block = int64{1} << 40;  ///< beyond the blocks of any grid

/// Returns the block that starts `prefetch_blocks` blocks of each multiprocessor later; no_block if it starts together with
/// this one: the first `resident_blocks` of each do.
template <int prefetch_blocks, int resident_blocks>
__device__ __forceinline__ int64 later_block() {
  const int64 later = block_index() + prefetch_blocks * multiprocessors();
  return later < resident_blocks * multiprocessors() ? no_block : later;
}

/// Brings the row that this group has in a later block into L2: RowFeatures<shape>::Prefetch. Every group computes one row.
template <int prefetch_blocks, int resident_blocks>
struct PrefetchLaterRow {
  int64 row = -1;           ///< negative if this thread prefetches nothing
  int part = 0, parts = 1;  ///< each block of the group brings a part

  template <typename Group>
  static __device__ __forceinline__ PrefetchLaterRow of(const Group& group, const RowParams& params, int64 index) {
    constexpr int blocks_of_row = Group::group_size > Group::threads ? Group::group_size / Group::threads : 1;
    constexpr int rows_of_block = Group::group_size < Group::threads ? Group::threads / Group::group_size : 1;
    const int64 distance = later_block<prefetch_blocks, resident_blocks>() - block_index();
    const int64 later = index + distance * rows_of_block / blocks_of_row;
    const int thread_rank = group.thread_rank();
    const bool first = thread_rank % (Group::group_size / blocks_of_row) == 0;
    return {first && later < params.rows ? later : -1, thread_rank / Group::threads, blocks_of_row};
  }

  /// Starts the prefetch of this row of an array. Called by all threads.
  template <typename Element, LoadHint hint>
  __device__ __forceinline__ void start(const RowParams& params, const void* array, int64 stride) const {
    if (row < 0) return;
    const int each = (params.cols + parts - 1) / parts, begin = each * part;
    const int count = params.cols - begin < each ? params.cols - begin : each;
    const auto* const first = static_cast<const Element*>(array) + row * stride + begin;
    if (count > 0) prefetch_to_l2<hint>(first, count * static_cast<int64>(sizeof(Element)));
  }
};

/// Starts a prefetch of the rows of a later block. Rows follow each other without gaps. Called by all threads.
template <typename Element, const RowShape& shape, int prefetch_blocks, int resident_blocks>
__device__ __forceinline__ void prefetch_staged_rows(const RowParams& params, const void* array) {
  const int64 first = later_block<prefetch_blocks, resident_blocks>() * shape.staged_rows;
  if (thread_index() != 0 || first >= params.rows) return;
  const int64 cols = params.cols;
  const int64 count = params.rows - first < shape.staged_rows ? params.rows - first : shape.staged_rows;
  prefetch_to_l2<LoadHint::plain>(static_cast<const Element*>(array) + first * cols,
                                  count * cols * static_cast<int64>(sizeof(Element)));
}

}  // namespace tunesmith
