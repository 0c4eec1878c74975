// Matrix products for Hopper (sm_90a), f16 and bf16: warp-specialized and persistent, one block per multiprocessor.
//
//   producer    one thread loads tiles of A and B through TMA into a ring of stages, each with a "full" and an "empty"
//               mbarrier. The blocks of a cluster load a share of a common tile each and multicast it.
//   consumers   each warpgroup multiplies its rows by all columns of the tile. It releases a stage when the next product is
//               under way. Its epilogue goes through shared memory of its own to TMA, warp by warp, and waits for no other
//               warpgroup: while one is in its epilogue, another multiplies, and the producer fills stages of the next tile.
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
  const int tiles = params.product.m_tiles * params.product.n_tiles, steps = (params.product.k + Tiles::k - 1) / Tiles::k;
  Stage<config.stages> stage;
  for (int number = place.first(); number < tiles; number += place.step()) {
    if (place.template skips<Tiles::tile_m>(params.product, epilogue, number)) continue;
    const MatmulTile tile = place.tile(params.product, number);
    const int row = tile.row * Tiles::tile_m + place.in_n * Tiles::a_share;
    const int column = tile.column * Tiles::tile_n + place.in_m * Tiles::b_share;
    for (int step = 0; step < steps; ++step) {
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
    const int tiles = params_.product.m_tiles * params_.product.n_tiles;
    const int steps = (params_.product.k + Tiles::k - 1) / Tiles::k;
    for (int number = place.first(); number < tiles; number += place.step()) {
      if (place.template skips<Tiles::tile_m>(params_.product, epilogue_, number)) continue;
      const MatmulTile tile = place.tile(params_.product, number);
      float sums[config.blocks_m][config.tile_n / 2];
      int released = stage_.index;
      for (int step = 0; step < steps; ++step) {
        barrier_wait(barriers_.full(stage_.index), stage_.parity);
        multiply_stage(sums, step > 0);
        if (step > 0) {
          wgmma_wait<1>();
          release(released);
        }
        released = stage_.index;
        stage_.next();
      }
      wait_for_sums(sums);
      release(released);
      write(sums, tile);
    }
    store_wait<0>();
  }

 private:
  __device__ __forceinline__ void wait_for_sums(float (&sums)[config.blocks_m][config.tile_n / 2]) {
    if constexpr (config.blocks_m == 1)
      wgmma_wait<0>(sums[0]);
    else
      wgmma_wait<0>(sums[0], sums[1]);
  }

  /// Starts the products of a stage.
  __device__ __forceinline__ void multiply_stage(float (&sums)[config.blocks_m][config.tile_n / 2], bool adds) {
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
  __device__ __forceinline__ void write(float (&sums)[config.blocks_m][config.tile_n / 2], const MatmulTile& tile) {
    constexpr int columns = Tiles::slab_columns;
    const int warp = warp_index() % 4, lane = lane_index();
    const uint32 slabs = shared_ + Tiles::c_at + (group_ * 4 + warp) * (Tiles::slabs * Tiles::slab_bytes);
    const int first_column = tile.column * Tiles::tile_n;
#pragma unroll
    for (int i = 0; i < config.blocks_m; ++i) {
      const int first_row = tile.row * Tiles::tile_m + group_ * Tiles::rows + i * 64 + warp * 16;
      auto upper = epilogue_.row(first_row + lane / 4, first_column + lane % 4 * 2);
      auto lower = epilogue_.row(first_row + lane / 4 + 8, first_column + lane % 4 * 2);
#pragma unroll
      for (int slab = 0; slab < Tiles::tile_n / columns; ++slab) {
        float values[columns / 2];
#pragma unroll
        for (int j = 0; j < columns / 2; ++j) {
          const float sum = sums[i][slab * (columns / 2) + j];
          const int offset = slab * columns + j / 4 * 8 + j % 2;
          if (j / 2 % 2 == 0)
            values[j] = epilogue_(sum, upper, offset);
          else
            values[j] = epilogue_(sum, lower, offset);
        }
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
      epilogue_.template end<4>(upper, tile.column);
      epilogue_.template end<4>(lower, tile.column);
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

  const Epilogue epilogue(epilogue_params);
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

}  // namespace tunesmith

#endif
