// Split-KV attention as in attention/split.cuh, with the blocks that share the keys of a tile of rows in a cluster (sm_90
// and later): no second kernel and no workspace. At the end each block combines some columns of all rows: the other blocks
// send their partials to its shared memory, so it waits once and reads local memory only.
#pragma once

#include "attention/split_block.cuh"
#include "device/cluster.cuh"

#if TUNESMITH_SM >= 900

namespace tunesmith {

/// Messages from the blocks of a cluster to one of them.
template <const AttentionShape& shape, const SplitConfig& config>
struct SplitInbox {
  using Tiles = SplitTiles<shape, config>;
  static constexpr int blocks = config.cluster, columns = Tiles::columns;

  unsigned char* const shared;
  const ClusterMessages messages;

  __device__ __forceinline__ SplitInbox(unsigned char* memory, int rank, int rows)
      : shared(memory), messages(memory + Tiles::messages_at, blocks * rows * (1 + chunks_of(rank)) * 16) {}

  __device__ __forceinline__ void send_end(int to, int from, int row, const RowStats& end) const {
    messages.send(&this->end(from, row), to, {{bits_of(end.largest), bits_of(end.sum), 0, 0}});
  }
  /// Sends undivided outputs relative to the sender's maximum. `chunk`: among the columns that `to` combines.
  __device__ __forceinline__ void send_output(int to, int from, int row, int chunk, const float (&values)[columns]) const {
    Bits<16> bits;
#pragma unroll
    for (int c = 0; c < columns; ++c) bits.word[c] = bits_of(values[c]);
    messages.send(&output(from, row, chunk), to, bits);
  }

  __device__ __forceinline__ RowStats end_of(int row) const {
    const auto* const ends = reinterpret_cast<const float*>(&end(0, row));
    return RowStats::of<blocks, 4 * config.tile_q>(ends, ends + 1);
  }
  /// Sums the outputs of all blocks. A block without keys sends zeros and has weight 0.
  __device__ __forceinline__ void output_of(int row, int chunk, const RowStats& end, float (&values)[columns]) const {
#pragma unroll
    for (int c = 0; c < columns; ++c) values[c] = 0.0f;
#pragma unroll
    for (int from = 0; from < blocks; ++from) {
      const float weight = end.weight_of(float_of(this->end(from, row).word[0]));
      const Bits<16> sent = output(from, row, chunk);
#pragma unroll
      for (int c = 0; c < columns; ++c) values[c] = fused_multiply_add(float_of(sent.word[c]), weight, values[c]);
    }
  }

 private:
  /// Returns the number of column chunks of a block; the last blocks may have fewer, or none.
  static __device__ __forceinline__ int chunks_of(int rank) {
    const int left = Tiles::per_row - rank * Tiles::share;
    return left < 0 ? 0 : left < Tiles::share ? left : Tiles::share;
  }
  __device__ __forceinline__ Bits<16>& end(int from, int row) const {
    return reinterpret_cast<Bits<16>*>(shared + Tiles::sent_ends_at)[from * config.tile_q + row];
  }
  __device__ __forceinline__ Bits<16>& output(int from, int row, int chunk) const {
    return reinterpret_cast<Bits<16>*>(shared + Tiles::sent_at)[(from * config.tile_q + row) * Tiles::share + chunk];
  }
};

template <typename Element, const AttentionShape& shape, typename Modification, const SplitConfig& config>
__device__ __forceinline__ void attention_split_cluster(const AttentionParams& params) {
  using Tiles = SplitTiles<shape, config>;
  constexpr int blocks = config.cluster, columns = Tiles::columns, per_row = Tiles::per_row, share = Tiles::share;
  const int rank = cluster_rank();
  // Neighbouring clusters read the same keys, as blocks do in attention/split.cuh.
  MixedNumber number(static_cast<uint32>(block_index()) / blocks);
  const int row_tile = number.next(params.q_tiles), kv_head = number.next(params.kv_heads), batch = number.last();
  // All blocks of a cluster have the same rows, or none. A block without keys still joins the final exchange.
  if (batch >= params.batch) return;
  KeyValuesOf<Element, shape>::prefetch(params, batch, rank, blocks);
  const Sequence sequence = sequence_of<shape>(params, batch);
  const SplitWork<shape, config> work(params, sequence, row_tile);
  if (work.empty()) return;
  const SplitBlock<Element, shape, Modification, config> block;
  const SplitInbox<shape, config> inbox(block.shared, rank, work.rows);
  block.take(params, sequence, work, batch, kv_head, work.part_of(rank));

  inbox.messages.open();
  for (int i = thread_index(); i < work.rows * blocks; i += Tiles::threads)
    inbox.send_end(i % blocks, rank, i / blocks, block.end_of(i / blocks));
  sync_block();
  for (int i = thread_index(); i < work.rows * per_row; i += Tiles::threads) {
    const int row = i / per_row, chunk = i % per_row;
    float values[columns];
    block.output_of(row, chunk * columns, values);
    inbox.send_output(chunk / share, rank, row, chunk % share, values);
  }
  inbox.messages.await();

  for (int i = thread_index(); i < work.rows * share; i += Tiles::threads) {
    const int row = i / share, chunk = i % share, column = (rank * share + chunk) * columns;
    if (column >= shape.head_dim_v) continue;
    const auto place = work.place_of(kv_head, row);
    const RowStats combined = inbox.end_of(row);
    // The sink is added to the sum here, once per row.
    const FinalScale end = approximate_end_of<shape>(params, place.head, combined.largest, combined.sum);
    if (column == 0 && params.lse != nullptr) lse_of<shape>(params, sequence, batch, place.head)[place.query] = end.lse;
    float values[columns];
    inbox.output_of(row, chunk, combined, values);
#pragma unroll
    for (int c = 0; c < columns; ++c) values[c] = multiply(values[c], end.scale);
    store_part<shape.o_vector>(output_at<Element, shape>(params, sequence, batch, place.head, place.query) + column, values);
  }
}

}  // namespace tunesmith

#endif
