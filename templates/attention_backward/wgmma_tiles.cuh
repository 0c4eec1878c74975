// Shared by the warpgroups of attention_backward/wgmma.cuh: the layout of shared memory and of the sums of dQ, and the order
// of blocks and Q tiles.
#pragma once

#include "attention/alibi.cuh"
#include "attention/dropout.cuh"
#include "attention/soft_cap.cuh"
#include "attention_backward/pairs.cuh"
#include "attention_backward/wgmma_params.cuh"
#include "device/bulk.cuh"
#include "device/wgmma.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// How the two multiplying warpgroups of a block divide the work.
enum class MultiplierRoles : int {
  keys,       ///< each has 64 of 128 keys and computes all of dK and dV for them
  gradients,  ///< both have the same 64 keys: one computes S and dV, the other one dP and dK
};

struct WgmmaBackwardConfig {
  MultiplierRoles roles;
  int tile_q;       ///< queries of a tile, 64 or 128
  int stages;       ///< Q tiles, and dO tiles, in flight or in use
  bool ahead;       ///< S of the next tile is computed right after dK
  bool ordered;     ///< dQ is summed in the order of the keys, so that equal inputs give equal bits
  bool adders;      ///< a fourth warpgroup loads tiles and adds to the sums of dQ (LoaderWithAdders)
  bool slopes;      ///< computes the gradient of ALiBi slopes
  bool accumulate;  ///< dK and dV are added to what their arrays hold
  int cluster;      ///< blocks that hold all keys of a key head and exchange dQ; 0: dQ is summed in the workspace
  int head_split;   ///< blocks of a cluster that share the query heads of a key head (wgmma_head_split.cuh); 0: none do
  int dq_tile_q;    ///< queries of a block of the kernel that computes dQ (wgmma_queries.cuh); 0: there is only one kernel
  int dq_tile_kv;   ///< keys of a tile of that kernel
  int dq_stages;    ///< its K tiles in flight or in use; there is one V tile fewer
  bool persistent;  ///< a block goes through the keys of many blocks (wgmma_persistent.cuh)
};

template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct WgmmaBackwardTiles {
  static constexpr int multipliers = 2, threads = 128 * (multipliers + 1);  ///< of all warpgroups except `adders`
  static constexpr int loading_warp = config.adders ? threads / 32 : 0;
  static constexpr bool last_first = config.ordered && shape.bounded_right;
  static constexpr bool separate_dq = config.dq_tile_q > 0;  ///< another kernel computes dQ
  /// Blocks go through tiles in the same order.
  static constexpr bool in_order = config.ordered || config.cluster > 0 || separate_dq;
  static constexpr int head_split = config.head_split;
  static constexpr bool by_gradient = config.roles == MultiplierRoles::gradients;
  /// The first loads start before the threads of the block meet: K on the barrier of the first Q tile, V on the barrier of
  /// dO. Not where ptxas then schedules the other products so much worse that measurements show no gain.
  static constexpr bool loads_early = !config.persistent && config.cluster == 0 && !by_gradient && !separate_dq &&
                                      ((config.adders && !config.ordered) || (config.stages == 3 && shape.bounded_right));
  static constexpr int tile_q = config.tile_q, tile_kv = by_gradient ? 64 : 64 * multipliers;
  // Shared memory: slabs of 64 columns, rows of 128 bytes, swizzled.
  static constexpr int row_bytes = 128, slab_columns = 64;
  static constexpr int qk_slabs = (shape.head_dim + 63) / 64, v_slabs = (shape.head_dim_v + 63) / 64;
  static constexpr int q_slab = tile_q * row_bytes, kv_slab = tile_kv * row_bytes;
  static constexpr int q_bytes = qk_slabs * q_slab, dout_bytes = v_slabs * q_slab;
  // Persistent blocks load the next keys into a second stage if there is room.
  static constexpr int kv_stages = config.persistent && qk_slabs + v_slabs == 2 ? 2 : 1;
  static constexpr int k_at = 0, v_at = k_at + qk_slabs * kv_slab, kv_bytes = v_at + v_slabs * kv_slab;
  static constexpr int q_at = kv_stages * kv_bytes;
  /// Stage and barrier parity of K and V of a persistent block's work item; stages alternate.
  static __device__ __forceinline__ constexpr int kv_stage(const Stage<2>& item) { return kv_stages > 1 ? item.index : 0; }
  static __device__ __forceinline__ constexpr uint32 kv_parity(const Stage<2>& item) {
    return kv_stages > 1 ? item.parity : static_cast<uint32>(item.index);
  }
  static constexpr int dout_at = q_at + config.stages * q_bytes;
  /// dK is stored through the last Q tiles: both multipliers have read them when they end, while dQ still needs K. At
  /// head_dim 64 this was slower.
  static constexpr bool dk_in_q_tiles =
      !by_gradient && !separate_dq && !config.persistent && config.cluster == 0 && qk_slabs > 1;
  static constexpr int dk_at = dk_in_q_tiles ? q_at : k_at;
  static_assert(!dk_in_q_tiles || config.stages * tile_q >= tile_kv, "Q tiles have room for dK");
  // Rows of the boxes of tensor maps, which both kernels share if there are two.
  static constexpr int q_box = separate_dq ? 64 : tile_q;
  static constexpr int kv_box = !separate_dq ? tile_kv : config.dq_tile_kv % 64 == 0 ? 64 : 32;
  // Two stages of dS for dQ, a row for each query, a slab for each 64 keys.
  static constexpr int ds_at = dout_at + config.stages * dout_bytes, ds_bytes = separate_dq ? 0 : tile_kv / 64 * q_slab;
  // Two stages of P or of its derivative by the dot product, if one warpgroup computes them and another one needs them: 16
  // bytes of each thread for each 16 queries. If it needs both, one stage of each.
  static constexpr bool is_modified = shape.softcap || shape.score_mod;
  static constexpr bool both_kinds = by_gradient && ((is_modified && config.slopes) || (shape.score_mod && shape.dropout));
  static constexpr int p_stages = both_kinds ? 1 : 2;
  static constexpr int p_at = ds_at + 2 * ds_bytes, p_bytes = by_gradient ? tile_q / 16 * 128 * 16 : 0;
  // dQ is computed in pieces of 64 queries and up to 64 columns. Up to two of them wait for their addition to global memory.
  // Without enough shared memory they are added from registers.
  static constexpr int row_blocks = tile_q / 64, pieces = row_blocks * qk_slabs, piece_bytes = 64 * 64 * 4;
  static __device__ __forceinline__ constexpr int slab_of(int piece) { return piece / row_blocks; }
  static __device__ __forceinline__ constexpr int columns_of(int piece) {
    return shape.head_dim - 64 * slab_of(piece) < 64 ? shape.head_dim - 64 * slab_of(piece) : 64;
  }
  static constexpr int sums_at = p_at + 2 * p_bytes;
  static constexpr int sums_stages = by_gradient || separate_dq ? 0 : pieces < 2 && !config.adders ? 1 : 2;
  // Or, with a cluster: two stages of slots, which together have room for a tile of dQ (wgmma_exchange.cuh).
  static constexpr int sums_bytes = config.cluster > 0 ? 2 * tile_q* shape.head_dim * 4 : sums_stages* piece_bytes;
  /// An address as descriptors of matrices take it: in a cluster, addresses of shared memory have the block's rank in their
  /// upper bits.
  static __device__ __forceinline__ uint32 operand(uint32 address) {
    if constexpr (config.cluster > 0 || config.head_split > 0) return address & ((1u << 18) - 1);
    return address;
  }
  static constexpr int lse_at = sums_at + sums_bytes, delta_at = lse_at + config.stages * tile_q * 4;
  static constexpr int barriers_at = delta_at + config.stages * tile_q * 4;
  static constexpr int more_barriers = config.cluster > 0 ? 4 : config.persistent ? 20 : 0;
  static constexpr int ticket_at = barriers_at + 8 * (4 * config.stages + 10 + more_barriers);
  static constexpr int smem_bytes = ticket_at + 8;
};

/// Addresses of barriers in shared memory. "come" counts bytes or warps that have written, "free" warps that have read.
template <int stages>
struct BackwardBarriers {
  uint32 base;
  __device__ __forceinline__ uint32 q_full(int stage) const { return base + 32 * stage; }
  __device__ __forceinline__ uint32 q_empty(int stage) const { return base + 32 * stage + 8; }
  __device__ __forceinline__ uint32 dout_full(int stage) const { return base + 32 * stage + 16; }
  __device__ __forceinline__ uint32 dout_empty(int stage) const { return base + 32 * stage + 24; }
  __device__ __forceinline__ uint32 k_full(int stage = 0) const { return base + 32 * stages + 80 * stage; }
  __device__ __forceinline__ uint32 v_full(int stage = 0) const { return base + 32 * stages + 8 + 80 * stage; }
  __device__ __forceinline__ uint32 ds_full(int stage) const { return base + 32 * stages + 16 + 16 * stage; }
  __device__ __forceinline__ uint32 ds_empty(int stage) const { return base + 32 * stages + 24 + 16 * stage; }
  __device__ __forceinline__ uint32 p_full(int stage) const { return base + 32 * stages + 48 + 16 * stage; }
  __device__ __forceinline__ uint32 p_empty(int stage) const { return base + 32 * stages + 56 + 16 * stage; }
  // Where p_full and p_empty are not used.
  __device__ __forceinline__ uint32 sums_full(int stage) const { return p_full(stage); }
  __device__ __forceinline__ uint32 sums_empty(int stage) const { return p_empty(stage); }
  __device__ __forceinline__ uint32 slots_full(int stage) const { return base + 32 * stages + 80 + 16 * stage; }
  __device__ __forceinline__ uint32 slots_empty(int stage) const { return base + 32 * stages + 88 + 16 * stage; }
  // Of persistent blocks, which have no slots.
  __device__ __forceinline__ uint32 k_empty(int stage) const { return base + 32 * stages + 96 + 16 * stage; }
  __device__ __forceinline__ uint32 v_empty(int stage) const { return base + 32 * stages + 104 + 16 * stage; }
  __device__ __forceinline__ uint32 item_full(int slot) const { return base + 32 * stages + 128 + 56 * slot; }
  __device__ __forceinline__ uint32 item_empty(int slot) const { return base + 32 * stages + 136 + 56 * slot; }
  __device__ __forceinline__ uint32 dq_done(int slot) const { return base + 32 * stages + 144 + 56 * slot; }
  __device__ __forceinline__ uint32 dv_staged(int slot, int group) const {
    return base + 32 * stages + 152 + 56 * slot + 16 * group;
  }
  __device__ __forceinline__ uint32 dk_staged(int slot, int group) const {
    return base + 32 * stages + 160 + 56 * slot + 16 * group;
  }
};

/// Registers of a thread of each warpgroup: three have 504 together, four 512. 32 and 88 are too few with a mask_mod, where
/// all warpgroups go through the block mask, and for persistent blocks, which go through many keys. Multipliers of short
/// head dimensions spare 16, or 8 where ptxas would spill more than that saves. A loader that does not compute dQ needs few.
template <typename Element, const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct WgmmaBackwardRegisters {
  using Tiles = WgmmaBackwardTiles<shape, config>;
  static constexpr int both = shape.head_dim + shape.head_dim_v;
  static constexpr int wider = shape.head_dim > shape.head_dim_v ? shape.head_dim : shape.head_dim_v;
  /// Of gradients, scores and weights.
  static constexpr int of_tiles = (Tiles::by_gradient ? wider : both) / 2 + config.tile_q / 4 * 3;
  static constexpr bool tight = Tiles::is_modified || (config.tile_q == 128 && (is_same<Element, f16> || config.persistent));
  static constexpr int spared = !(shape.mask_mod || config.persistent) || of_tiles > 160 ? 0
                                : !tight                                                 ? 16
                                : config.adders                                          ? 8
                                                                                         : 0;
  static constexpr int of_two = shape.mask_mod ? 216 : !Tiles::by_gradient ? 240 : shape.dropout ? 232 : 224;
  static constexpr int multiplier = Tiles::separate_dq ? of_two : 208 - spared;
  static constexpr int helper = 32 + 2 * spared;
  static constexpr int loader = Tiles::separate_dq ? 504 - 2 * multiplier : config.adders ? 64 : 88 + 2 * spared;
  static_assert(2 * multiplier + loader + (config.adders ? helper : 0) == (config.adders ? 512 : 504));
};

/// Returns the number of the block's keys, see WgmmaKeys. If blocks wait for each other, it counts them in the order of
/// their starts. Shared memory holds it then, and the numbers of persistent blocks.
template <const WgmmaBackwardConfig& config>
__device__ __forceinline__ int block_number(uint32 ticket) {
  if constexpr (config.head_split > 0) return static_cast<int>(block_index() / config.head_split);
  if constexpr (!config.ordered && !config.persistent) return static_cast<int>(block_index());
  const int number = static_cast<int>(load_shared_word(ticket));
  return config.persistent ? shuffle(number, 0) : number;  // uniform for the warp, in a way that the compiler sees
}
/// Where a tensor map has a position of a sequence. Maps of packed sequences have the dimensions head_dim, positions of the
/// longest sequence, heads, and all positions + 1; both dimensions of positions have the same stride, and the map begins
/// `longest` positions before the array. Position i of a sequence is at (longest - length + i, start + length): positions
/// from its end on are outside of the map, so they are read as zeros and not written. A box that is wholly outside of such a
/// map must not be loaded: where the addresses before the array are not mapped, an H200 reports an illegal address. So boxes
/// begin at the last position of a sequence at the latest, and a sequence without positions is not loaded.
struct MapPlace {
  int row, entry, last_row;
  /// Row of a box that begins `rows` after the first one.
  __device__ __forceinline__ int row_after(int rows) const { return row + rows < last_row ? row + rows : last_row; }
};
template <const AttentionShape& shape>
__device__ __forceinline__ MapPlace map_place(int longest, int64 start, int length, int batch, int first) {
  if constexpr (shape.varlen) return {longest - length + first, static_cast<int>(start) + length, longest - 1};
  return {first, batch, 0x7fffffff};
}

/// Loads `rows` rows of a head to slabs of 64 columns, in boxes of `box` rows. One thread.
template <int slabs, int rows, int box>
__device__ __forceinline__ void load_slabs(uint32 to, const TensorMap& map, uint32 come, L2Hint hint, const MapPlace& place,
                                           int head) {
  constexpr int row_bytes = 128;
#pragma unroll
  for (int slab = 0; slab < slabs; ++slab)
#pragma unroll
    for (int row = 0; row < rows; row += box)
      load_tile(to + (slab * rows + row) * row_bytes, map, come, hint, slab * 64, place.row_after(row), head, place.entry);
}

/// Issues products = A B^T over `width` columns: 64 rows of one tile, and all rows of another one. `a_slab`, `b_slab`: bytes
/// of their slabs of 64 columns.
template <typename Element, int width, int a_slab, int b_slab, int count>
__device__ __forceinline__ void multiply_slabs(float (&products)[count], const MatrixDescriptor& a,
                                               const MatrixDescriptor& b) {
  wgmma_fence(products);
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    const int slab = step / 4, within = step % 4 * 32;
    wgmma<Element, Innermost::k>(products, advance(a, slab * a_slab + within), advance(b, slab * b_slab + within), step > 0);
  }
  wgmma_commit();
}

/// First row of a sequence's statistics and sums; rows of all heads are counted together.
template <const AttentionShape& shape>
__device__ __forceinline__ int64 first_row_of(const AttentionBackwardParams& params, const Sequence& sequence, int batch,
                                              int head) {
  if constexpr (shape.varlen) return head * params.statistics_rows + padded_start(batch, static_cast<int>(sequence.q_start));
  return (static_cast<int64>(batch) * params.attention.heads + head) * params.statistics_rows;
}

/// The part of a block: a head, of a batch entry, and the first of its keys or queries. Heads are taken in sections; within
/// a section the first tiles of all heads come first, or the last ones.
struct SectionPlace {
  int batch, head, first;

  /// Of block `number`, if each of `heads` heads of `batches` batch entries has `tiles` tiles of `size` positions. Takes
  /// kernel parameters by reference, so that they stay out of registers.
  __device__ __forceinline__ SectionPlace(int per_section, int batches, const int& heads, const int& tiles, int size,
                                          int number, bool last_first) {
    // The first section may have fewer heads than the others: the long blocks of a small last one would begin late.
    const int all = batches * heads;
    const int in_first = (all - 1) % per_section + 1, later = number - in_first * tiles;
    const int section = later / (per_section * tiles);
    const int rest = later < 0 ? number : later - section * per_section * tiles;
    const int in_section = later < 0 ? in_first : per_section, tile = rest / in_section;
    const int any_head = (later < 0 ? 0 : in_first + section * per_section) + rest - tile * in_section;
    batch = any_head / heads;
    head = any_head - batch * heads;
    first = (last_first ? tiles - 1 - tile : tile) * size;
  }
};

/// The keys of a block. Sections have the key heads whose queries, gradients of outputs and sums of dQ fit into L2
/// together; within a section the first keys of all heads come first, because most queries see them under a causal mask.
struct WgmmaKeys {
  int batch, kv_head, first_k;

  /// Of block `number`. `last_first`: within a section the last keys come first.
  __device__ __forceinline__ WgmmaKeys(const AttentionBackwardParams& params, int tile_kv, int number, bool last_first) {
    const SectionPlace place(params.attention.heads_per_section, params.attention.batch, params.attention.kv_heads,
                             params.kv_tiles, tile_kv, number, last_first);
    batch = place.batch;
    kv_head = place.head;
    first_k = place.first;
  }
};

/// The query heads of a block: all heads of its key head, or a part if the blocks of a cluster share them (`head_split`).
template <int head_split>
__device__ __forceinline__ int first_query_head(const AttentionParams& params, int kv_head) {
  const int group = params.heads / params.kv_heads;
  if constexpr (head_split > 0) return kv_head * group + cluster_rank() * group / head_split;
  return kv_head * group;
}
template <int head_split>
__device__ __forceinline__ int query_heads(const AttentionParams& params) {
  const int group = params.heads / params.kv_heads;
  if constexpr (head_split > 0) {
    const int rank = cluster_rank();
    return (rank + 1) * group / head_split - rank * group / head_split;
  }
  return group;
}

/// The Q tiles of a block: QueryRing, or MaskedQueryRing with a mask_mod.
template <const AttentionShape& shape, typename Tiles, bool ordered>
using RingOf = typename AttentionFeatures<shape>::template Ring<Tiles::tile_q, Tiles::tile_kv, ordered, Tiles::head_split>;

/// The Q tiles that see some of a block's keys, head by head, in a ring. Without a mask, blocks start at different tiles, so
/// that they do not add to the same sums of dQ at the same time. If the additions are ordered, all begin with their first
/// tile, and no block waits for one that begins later: additions are in the order of the keys, or, where later keys have
/// later first tiles, such as under a causal mask, in the opposite order. There a block is always ahead of the one that
/// waits for it.
template <const AttentionShape& shape, int tile_q, int tile_kv, bool ordered, int head_split>
class QueryRing {
 public:
  __device__ __forceinline__ QueryRing(const AttentionParams& params, const Visibility<shape>& visibility,
                                       const WgmmaKeys& keys, int) {
    const KeyRange seen = queries_of<shape>(visibility, keys.first_k, keys.first_k + tile_kv - 1);
    begin_ = seen.begin / tile_q;
    end_ = seen.empty() ? begin_ : (seen.end + tile_q - 1) / tile_q;
    const int group = query_heads<head_split>(params);
    first_head_ = first_query_head<head_split>(params, keys.kv_head);
    last_head_ = first_head_ + group - 1;
    tile_ = begin_;
    if constexpr (!ordered && !shape.bounded_left && !shape.bounded_right)
      if (end_ > 0) tile_ = keys.first_k / tile_q % end_;
    head_ = first_head_;
    offset_ = visibility.offset;
    if constexpr (ordered) {
      key_tile_ = keys.first_k / tile_kv;
      last_key_tile_ = (visibility.seq_kv - 1) / tile_kv;
      last_q_ = visibility.seq_q - 1;
      bound_ = visibility.offset + (shape.bounded_right ? visibility.right : -visibility.left);
    }
  }
  __device__ __forceinline__ int count() const { return (end_ - begin_) * (last_head_ - first_head_ + 1); }
  __device__ __forceinline__ int head() const { return head_; }
  __device__ __forceinline__ int first_q() const { return tile_ * tile_q; }
  /// Visibility::offset.
  __device__ __forceinline__ int offset() const { return offset_; }
  /// As MaskedQueryRing::all_unmasked().
  __device__ __forceinline__ bool all_unmasked() const { return true; }
  /// Number of blocks that add to the sums of this tile before this block does.
  __device__ __forceinline__ uint32 earlier_blocks() const {
    using Seen = Visibility<shape>;
    if constexpr (shape.bounded_right) {
      const int last = Seen::smallest(first_q() + tile_q - 1, last_q_) + bound_;  // key that the tile sees
      return static_cast<uint32>(Seen::smallest(last_key_tile_, last / tile_kv) - key_tile_);
    }
    const int first = shape.bounded_left ? Seen::largest(0, first_q() + bound_) / tile_kv : 0;
    return static_cast<uint32>(key_tile_ - first);
  }
  /// Whether queries of a tile see some of the `tile_kv` keys from first_k on.
  static __device__ __forceinline__ bool sees(const AttentionParams&, const Visibility<shape>& visibility, int, int,
                                              int tile, int first_k) {
    const KeyRange seen = queries_of<shape>(visibility, first_k, first_k + tile_kv - 1);
    return !seen.empty() && tile >= seen.begin / tile_q && tile * tile_q < seen.end;
  }
  __device__ __forceinline__ void next() {
    if (++tile_ < end_) return;
    tile_ = begin_;
    if (++head_ > last_head_) head_ = first_head_;
  }

 private:
  int begin_, end_, first_head_, last_head_, offset_;
  int tile_, head_;
  int key_tile_, last_key_tile_, last_q_, bound_;  ///< if ordered
};

/// The sums of dQ in the workspace: blocks of 64 queries and 64 columns in the order of a warpgroup's accumulators, which
/// are [warp][8 columns][lane][4]. With adders, which add a whole block at once, the last block of a row has no unused
/// columns. Returns a warp's part of the block that holds row `row`, of all heads, and column 64 * `slab`.
template <int qk_slabs>
__device__ __forceinline__ float* sums_of(const AttentionBackwardParams& params, int64 row, int slab, int warp) {
  return workspace_floats(params, params.sums_at) + (row / 64 * qk_slabs + slab) * (64 * 64) + warp * (16 * 64);
}

}  // namespace tunesmith

#endif
