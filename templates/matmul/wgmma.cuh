// Matrix products for Hopper (sm_90a), f16 and bf16: warp-specialized and persistent, one block per multiprocessor.
//
//   producer    one thread loads tiles of A and B through TMA into a ring of stages, each with a "full" and an "empty"
//               mbarrier. The blocks of a cluster load a share of a common tile each and multicast it.
//   consumers   each warpgroup multiplies its rows by all columns of the tile. It releases a stage when the next product is
//               under way. Its epilogue goes through shared memory of its own to TMA, warp by warp, and waits for no other
//               warpgroup: while one is in its epilogue, another multiplies, and the producer fills stages of the next tile.
//
// With few tiles, k is split: a tile's parts are computed like tiles, and a second kernel adds them and has the epilogue.
//
// Operands are used as they lie in memory: TMA writes 64 elements of the innermost dimension, swizzled, and the descriptors
// and a bit of the instruction say whether that is k or not.
//
// References: CUTLASS, "Efficient GEMM in CUDA" (persistent, warp-specialized cooperative kernels); PTX ISA, wgmma.
#pragma once

#include "device/vector.cuh"
#include "matmul/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// Loads a block's share of A or B, `rows` of the dimension that is not k: rows of 64 elements of k, or, transposed, slabs
/// of 64 elements with 64 rows of k.
template <bool k_innermost, int rows, bool multicasts>
__device__ __forceinline__ void load_share(uint32 to, const TensorMap& map, uint32 barrier, uint32 mates, int first, int k) {
  const auto load = [&](uint32 at, int x0, int x1) {
    if constexpr (multicasts)
      load_tile_multicast(at, map, barrier, L2Hint::evict_normal, mates, x0, x1, 0, 0);
    else
      load_tile(at, map, barrier, L2Hint::evict_normal, x0, x1, 0, 0);
  };
  if constexpr (k_innermost) {
    load(to, k, first);
  } else {
#pragma unroll
    for (int slab = 0; slab < rows / 64; ++slab) load(to + slab * (64 * 128), first + 64 * slab, k);
  }
}

template <typename Out, const MatmulShape& shape, const MatmulWgmmaConfig& config, typename Epilogue>
__device__ __forceinline__ void matmul_produce(const MatmulWgmmaParams& params, const Epilogue& epilogue, uint32 shared) {
  using Tiles = MatmulWgmmaTiles<Out, config>;
  const MatmulPlace<config> place;
  const MatmulBarriers barriers = {shared + Tiles::barriers_at};
  const MatmulSteps<config> steps(params.product);
  Stage<config.stages> stage;
  for (int number = place.first(); number < steps.works; number += place.step()) {
    if (place.template skips<Tiles::tile_m>(params.product, epilogue, steps.tile_of(number))) continue;
    const MatmulTile tile = place.tile(params.product, steps.tile_of(number));
    const int row = tile.row * Tiles::tile_m + place.in_n * Tiles::a_share;
    const int column = tile.column * Tiles::tile_n + place.in_m * Tiles::b_share;
    const int end = steps.end(number);
    for (int step = steps.begin(number); step < end; ++step) {
      barrier_wait_cluster(barriers.empty(stage.index), stage.parity ^ 1);
      const uint32 full = barriers.full(stage.index), at = shared + stage.index * Tiles::stage_bytes;
      barrier_arrive_expecting(full, Tiles::stage_bytes);
      load_share<!shape.transpose_a, Tiles::a_share, (config.cluster_n > 1)>(
          at + place.in_n * Tiles::a_share * Tiles::line, params.a, full, place.row_mates(), row, step * Tiles::k);
      load_share<shape.transpose_b, Tiles::b_share, (config.cluster_m > 1)>(
          at + Tiles::a_bytes + place.in_m * Tiles::b_share * Tiles::line, params.b, full, place.column_mates(), column,
          step * Tiles::k);
      stage.next();
    }
  }
}

template <typename Element, typename Out, const MatmulShape& shape, const MatmulWgmmaConfig& config, typename Epilogue>
class MatmulConsumer {
 public:
  using Tiles = MatmulWgmmaTiles<Out, config>;

  __device__ __forceinline__ MatmulConsumer(const MatmulWgmmaParams& params, const Epilogue& epilogue, uint32 shared,
                                            int group)
      : params_(params), epilogue_(epilogue), shared_(shared), group_(group), barriers_{shared + Tiles::barriers_at} {}

  __device__ __forceinline__ void run() {
    const MatmulPlace<config> place;
    const MatmulSteps<config> steps(params_.product);
    for (int number = place.first(); number < steps.works; number += place.step()) {
      if (place.template skips<Tiles::tile_m>(params_.product, epilogue_, steps.tile_of(number))) continue;
      const MatmulTile tile = place.tile(params_.product, steps.tile_of(number));
      int released = stage_.index;
      Sums sums;
      start_products(sums, false);
      Rows rows;
      if constexpr (config.splits == 1) load(rows, tile);  // while the first products are under way
      const int count = steps.end(number) - steps.begin(number);
      for (int step = 1; step < count; ++step) {
        const int current = stage_.index;
        start_products(sums, true);
        wgmma_wait<1>();
        release(released);
        released = current;
      }
      wait_for(sums);
      release(released);
      if constexpr (config.splits == 1)
        write(sums, rows, tile);
      else
        keep(sums, number * Tiles::cluster + place.rank);
    }
    store_wait<0>();
  }

  /// Adds the parts of a tile in their order, and writes it.
  __device__ __forceinline__ void combine() {
    const int tiles = params_.product.m_tiles * params_.product.n_tiles * Tiles::cluster;
    const int number = static_cast<int>(block_index());
    const MatmulTile tile = MatmulPlace<config>(number % Tiles::cluster).tile(params_.product, number / Tiles::cluster);
    Rows rows;
    load(rows, tile);
    Sums sums;
#pragma unroll
    for (int part = 0; part < config.splits; ++part)
#pragma unroll
      for (int i = 0; i < config.blocks_m; ++i)
#pragma unroll
        for (int j = 0; j < config.tile_n / 2; j += 4) {
          const Bits<16> four = tunesmith::load<16, LoadHint::no_allocate>(kept(part * tiles + number, i, j));
#pragma unroll
          for (int c = 0; c < 4; ++c)
            sums[i][j + c] = part == 0 ? float_of(four.word[c]) : add(sums[i][j + c], float_of(four.word[c]));
        }
    write(sums, rows, tile);
    store_wait<0>();
  }

 private:
  using Sums = float[config.blocks_m][config.tile_n / 2];
  /// A lane has two rows of each block of 64.
  using Rows = typename Epilogue::Row[config.blocks_m][2];

  /// The row of the first sums of a warp.
  __device__ __forceinline__ int row_of(const MatmulTile& tile, int block) const {
    return tile.row * Tiles::tile_m + group_ * Tiles::rows + block * 64 + warp_index() % 4 * 16;
  }
  __device__ __forceinline__ void load(Rows& rows, const MatmulTile& tile) const {
#pragma unroll
    for (int i = 0; i < config.blocks_m; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        rows[i][r] =
            epilogue_.row(row_of(tile, i) + lane_index() / 4 + 8 * r, tile.column * Tiles::tile_n + lane_index() % 4 * 2);
  }

  /// The place of four sums of a part of a tile, next to those of the warpgroups' other threads.
  __device__ __forceinline__ float* kept(int part, int block, int sum) const {
    constexpr int threads = 128 * config.consumers, fours = config.tile_n / 8;
    const int64 number = (int64{part} * config.blocks_m + block) * fours + sum / 4;
    return reinterpret_cast<float*>(params_.workspace) + (number * threads + group_ * 128 + thread_index() % 128) * 4;
  }
  __device__ __forceinline__ void keep(const Sums& sums, int part) const {
#pragma unroll
    for (int i = 0; i < config.blocks_m; ++i)
#pragma unroll
      for (int j = 0; j < config.tile_n / 2; j += 4)
        store<16, StoreHint::plain>(kept(part, i, j), Bits<16>{{bits_of(sums[i][j]), bits_of(sums[i][j + 1]),
                                                                bits_of(sums[i][j + 2]), bits_of(sums[i][j + 3])}});
  }

  __device__ __forceinline__ void wait_for(Sums& sums) {
    if constexpr (config.blocks_m == 1)
      wgmma_wait<0>(sums[0]);
    else
      wgmma_wait<0>(sums[0], sums[1]);
  }

  /// Starts the products of the next stage, when it has arrived.
  __device__ __forceinline__ void start_products(Sums& sums, bool adds) {
    barrier_wait(barriers_.full(stage_.index), stage_.parity);
    // A block of a cluster has its rank in its addresses, which descriptors have no room for.
    const uint32 at = (shared_ & 0x3ffffu) + stage_.index * Tiles::stage_bytes;
    const MatrixDescriptor a = matrix_descriptor(at + group_ * Tiles::rows * Tiles::line, 1024);
    const MatrixDescriptor b = matrix_descriptor(at + Tiles::a_bytes, 1024, shape.transpose_b ? 16 : 64 * Tiles::line);
    constexpr Innermost order = shape.transpose_b ? Innermost::k : Innermost::n;
    constexpr int a_step = shape.transpose_a ? 16 * Tiles::line : 32, b_step = shape.transpose_b ? 32 : 16 * Tiles::line;
    wgmma_fence();  // the first product does not read the sums, and the others follow in order
#pragma unroll
    for (int step = 0; step < Tiles::k / 16; ++step) {
#pragma unroll
      for (int i = 0; i < config.blocks_m; ++i) {
        const MatrixDescriptor rows = advance(a, i * 64 * Tiles::line + step * a_step);
        if constexpr (shape.transpose_a)
          wgmma_transposed<Element, order>(sums[i], rows, advance(b, step * b_step), adds || step > 0);
        else
          wgmma<Element, order>(sums[i], rows, advance(b, step * b_step), adds || step > 0);
      }
    }
    wgmma_commit();
    stage_.next();
  }

  /// Tells every block of the cluster that loads for this one that the warp has read a stage.
  __device__ __forceinline__ void release(int stage) const {
    if constexpr (Tiles::cluster == 1) {
      if (lane_index() == 0) barrier_arrive(barriers_.empty(stage));
    } else {
      if (lane_index() < Tiles::cluster) barrier_arrive_cluster(address_of_rank(barriers_.empty(stage), lane_index()));
    }
  }

  /// Writes the tile, 16 rows and 128 bytes of columns at a time. Each warp has two such slabs in shared memory.
  __device__ __forceinline__ void write(const Sums& sums, Rows& rows, const MatmulTile& tile) {
    constexpr int columns = Tiles::tile_n - 6;  // from a thread's first one to its last one
#pragma unroll
    for (int i = 0; i < config.blocks_m; ++i) {
      bool plain = false;
      if constexpr (Epilogue::has_plain_rows)
        plain = all_in_warp(epilogue_.is_plain(rows[i][0], columns) && epilogue_.is_plain(rows[i][1], columns));
      if (Epilogue::has_plain_rows && plain)
        write_rows<true>(sums[i], rows[i], tile, row_of(tile, i));
      else
        write_rows<false>(sums[i], rows[i], tile, row_of(tile, i));
      epilogue_.template end<4>(rows[i][0], tile.column);
      epilogue_.template end<4>(rows[i][1], tile.column);
    }
  }
  template <bool plain>
  __device__ __forceinline__ void write_rows(const float (&sums)[config.tile_n / 2], typename Epilogue::Row (&rows)[2],
                                             const MatmulTile& tile, int first_row) {
    constexpr int columns = Tiles::slab_columns;
    const int warp = warp_index() % 4, lane = lane_index(), first_column = tile.column * Tiles::tile_n;
    const uint32 slabs = shared_ + Tiles::c_at + (group_ * 4 + warp) * (Tiles::slabs * Tiles::slab_bytes);
#pragma unroll
    for (int slab = 0; slab < Tiles::tile_n / columns; ++slab) {
      float values[columns / 2];
#pragma unroll
      for (int j = 0; j < columns / 2; ++j)
        values[j] = epilogue_.template value<plain>(sums[slab * (columns / 2) + j], rows[j / 2 % 2],
                                                    slab * columns + j / 4 * 8 + j % 2);
      if constexpr (!Epilogue::writes) continue;
      const uint32 to = slabs + slot_ * Tiles::slab_bytes;
      slot_ = slot_ + 1 == Tiles::slabs ? 0 : slot_ + 1;   // across tiles, which may have an odd number of slabs
      if (lane == 0) store_wait_read<Tiles::slabs - 1>();  // the store of this slab before
      sync_warp();
      stage(to, lane, values);
      fence_async_shared();
      sync_warp();
      if (lane == 0) {
        if (first_row < params_.product.m && first_column + slab * columns < params_.product.c_columns) {
          if constexpr (shape.accumulate)
            add_tile(params_.c, to, first_column + slab * columns, first_row, 0, 0);
          else
            store_tile(params_.c, to, first_column + slab * columns, first_row, 0, 0);
        }
        store_commit();
      }
    }
  }

  /// Writes the warp's accumulators of a slab to shared memory, swizzled.
  template <int count>
  __device__ __forceinline__ void stage(uint32 to, int lane, const float (&values)[count]) const {
    if constexpr (sizeof(Out) == 2) {
      const int row = lane % 16;
#pragma unroll
      for (int pair = 0; pair < count / 8; ++pair) {  // 16 columns
        const float* const first = &values[8 * pair];
        const uint32 words[4] = {pack<Out>(first[0], first[1]), pack<Out>(first[2], first[3]), pack<Out>(first[4], first[5]),
                                 pack<Out>(first[6], first[7])};
        store_matrices(to + row * Tiles::line + (((2 * pair + lane / 16) ^ (row % 8)) * 16), words);
      }
    } else {
      const int row = lane / 4;
#pragma unroll
      for (int eight = 0; eight < count / 4; ++eight) {  // columns
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int chunk = 2 * eight + lane % 4 / 2;  // of 4 columns
          const uint32 at = to + (row + 8 * half) * Tiles::line + ((chunk ^ row) * 16) + lane % 2 * 8;
          store_shared_word(at, bits_of(values[4 * eight + 2 * half]));
          store_shared_word(at + 4, bits_of(values[4 * eight + 2 * half + 1]));
        }
      }
    }
  }

  const MatmulWgmmaParams& params_;
  const Epilogue& epilogue_;
  const uint32 shared_;
  const int group_;
  const MatmulBarriers barriers_;
  Stage<config.stages> stage_;
  int slot_ = 0;
};

template <typename Element, typename Out, const MatmulShape& shape, const MatmulWgmmaConfig& config, typename Epilogue>
__device__ __forceinline__ void matmul_wgmma(const MatmulWgmmaParams& params,
                                             const typename Epilogue::Params& epilogue_params) {
  using Tiles = MatmulWgmmaTiles<Out, config>;
  const uint32 shared = shared_address(dynamic_shared());
  const MatmulBarriers barriers = {shared + Tiles::barriers_at};
  const Epilogue epilogue(epilogue_params);
  if (epilogue.skips_all()) return;
  if (thread_index() == 0) {
    prefetch_tensor_map(params.a);
    prefetch_tensor_map(params.b);
    if constexpr (Epilogue::writes) prefetch_tensor_map(params.c);
    for (int stage = 0; stage < config.stages; ++stage) {
      barrier_init(barriers.full(stage), 1);
      barrier_init(barriers.empty(stage), Tiles::warps * Tiles::cluster);
    }
    barriers_ready();
  }
  if constexpr (Tiles::cluster > 1)
    sync_cluster();
  else
    sync_block();

  // Make it visibly uniform within the warp for the compiler.
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    if constexpr (config.consumers > 1) give_registers<24>();
    if (warp_index() == 0 && elect_one()) matmul_produce<Out, shape, config>(params, epilogue, shared);
  } else {
    if constexpr (config.consumers > 1) take_registers<240>();
    MatmulConsumer<Element, Out, shape, config, Epilogue>(params, epilogue, shared, group - 1).run();
  }
  // No block may end while another one of the cluster may still copy to it or arrive at its barriers.
  if constexpr (Tiles::cluster > 1) {
    sync_warp();
    sync_cluster();
  }
}

/// The second kernel of a product with a split k: a block for each tile, of the consumers' threads.
template <typename Element, typename Out, const MatmulShape& shape, const MatmulWgmmaConfig& config, typename Epilogue>
__device__ __forceinline__ void matmul_combine(const MatmulWgmmaParams& params,
                                               const typename Epilogue::Params& epilogue_params) {
  using Tiles = MatmulWgmmaTiles<Out, config>;
  const Epilogue epilogue(epilogue_params);
  // Its shared memory has slabs of c only.
  const uint32 shared = shared_address(dynamic_shared()) - Tiles::c_at;
  MatmulConsumer<Element, Out, shape, config, Epilogue>(params, epilogue, shared, warp_index() / 4).combine();
}

}  // namespace tunesmith

#endif
