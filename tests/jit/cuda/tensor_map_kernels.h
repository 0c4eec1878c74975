#pragma once
// Kernels that use everything in device/hopper.cuh and device/wgmma.cuh, for tests with NVRTC and on a GPU: a matrix product
// whose operands TMA loads, and a copy of boxes.

#include <cstdint>
#include <string>

#include "templates/template_set.h"

namespace tunesmith::test {

/// The parameter block of the kernels below; the launch plan has the offsets of the tensor maps.
struct TensorMapParams {
  const void* a;
  const void* b;
  float* c;
  void* d;
  std::int32_t m, n, k, heads;
  alignas(64) unsigned char maps[3][128];  // of a, b and d
};

/// Computes c = A B^T (or A B) for every head and batch, and d = c rounded to 16 bits. One warpgroup loads, two multiply 64
/// rows each.
inline constexpr const char* product_source = R"(
using namespace tunesmith;
struct Params {
  const void* a;
  const void* b;
  float* c;
  void* d;
  int m, n, k, heads;
  TensorMap a_map, b_map, d_map;
};

template <typename T, int columns, Innermost b_order, bool a_in_registers>
__device__ __forceinline__ void product(const Params& p) {
  constexpr int stages = 2, slabs = (columns + 63) / 64, slab_bytes = 64 * 128;
  constexpr int a_bytes = 2 * slab_bytes, b_bytes = b_order == Innermost::k ? columns * 128 : slabs * slab_bytes;
  unsigned char* const memory = dynamic_shared();
  const uint32 a_tiles = (shared_address(memory) + 1023) & ~1023u, b_tiles = a_tiles + stages * a_bytes,
               d_tiles = b_tiles + stages * b_bytes, full = d_tiles + 2 * slabs * slab_bytes, empty = full + 8 * stages;

  const int column_tiles = (p.n + columns - 1) / columns, row_tiles = (p.m + 127) / 128;
  int rest = static_cast<int>(block_index());
  const int column = rest % column_tiles * columns;
  rest /= column_tiles;
  const int row = rest % row_tiles * 128;
  rest /= row_tiles;
  const int head = rest % p.heads, batch = rest / p.heads;
  const int steps = (p.k + 63) / 64;

  if (thread_index() == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      barrier_init(full + 8 * stage, 1);
      barrier_init(empty + 8 * stage, 256);
    }
    barriers_ready();
  }
  sync_block();

  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    give_registers<24>();
    if (warp_index() == 0 && elect_one()) {
      prefetch_tensor_map(p.a_map);
      prefetch_tensor_map(p.b_map);
      for (int step = 0; step < steps; ++step) {
        const int stage = step % stages;
        const uint32 ready = full + 8 * stage, b = b_tiles + stage * b_bytes;
        barrier_wait(empty + 8 * stage, (step / stages & 1) ^ 1);
        barrier_arrive_expecting(ready, a_bytes + b_bytes);
        load_tile(a_tiles + stage * a_bytes, p.a_map, ready, L2Hint::evict_first, 64 * step, row, head, batch);
        if constexpr (b_order == Innermost::k)
          load_tile(b, p.b_map, ready, L2Hint::evict_last, 64 * step, column, head, batch);
        else
          for (int slab = 0; slab < slabs; ++slab)
            load_tile(b + slab * slab_bytes, p.b_map, ready, L2Hint::evict_normal, column + 64 * slab, 64 * step, head, batch);
      }
    }
  } else {
    take_registers<240>();
    const int wgroup = group - 1, lane = lane_index(), warp = warp_index() % 4;
    float d[columns / 2];
    for (int step = 0; step < steps; ++step) {
      const int stage = step % stages;
      barrier_wait(full + 8 * stage, step / stages & 1);
      const uint32 a_tile = a_tiles + stage * a_bytes + wgroup * slab_bytes;
      const MatrixDescriptor b = matrix_descriptor(b_tiles + stage * b_bytes, 1024, slab_bytes);
      constexpr int b_step = b_order == Innermost::k ? 32 : 2048;
      if constexpr (a_in_registers) {
        uint32 a[4][4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int r = 16 * warp + lane / 4 + 8 * (i % 2), chunk = 2 * k + i / 2;
            const uint32 address = a_tile + r * 128 + (chunk ^ r % 8) * 16 + lane % 4 * 4;
            a[k][i] = *reinterpret_cast<const uint32*>(memory + (address - shared_address(memory)));
          }
        wgmma_fence(d, a[0], a[1], a[2], a[3]);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma<T, b_order>(d, a[k], advance(b, k * b_step), step + k > 0);
        wgmma_commit();
        wgmma_wait<0>(d, a[0], a[1], a[2], a[3]);
      } else {
        const MatrixDescriptor a = matrix_descriptor(a_tile, 1024);
        wgmma_fence(d);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma<T, b_order>(d, advance(a, 32 * k), advance(b, k * b_step), step + k > 0);
        wgmma_commit();
        wgmma_wait<0>(d);
      }
      barrier_arrive(empty + 8 * stage);
    }

    float* const c = p.c + (static_cast<int64>(batch) * p.heads + head) * p.m * p.n;
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) {
      const int r = row + 64 * wgroup + 16 * warp + lane / 4 + i / 2 % 2 * 8;
      const int x = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (r < p.m && x < p.n) c[static_cast<int64>(r) * p.n + x] = d[i];
    }

    const uint32 d_tile = d_tiles + wgroup * slabs * slab_bytes;
#pragma unroll
    for (int j = 0; j < columns / 8; j += 2) {
      const bool is_pair = j + 1 < columns / 8;
      uint32 words[4] = {pack<T>(d[4 * j], d[4 * j + 1]), pack<T>(d[4 * j + 2], d[4 * j + 3]), 0, 0};
      if (is_pair) {
        words[2] = pack<T>(d[4 * j + 4], d[4 * j + 5]);
        words[3] = pack<T>(d[4 * j + 6], d[4 * j + 7]);
      }
      const int r = 16 * warp + lane % 16, chunk = j + lane / 16;
      store_matrices(d_tile + chunk / 8 * slab_bytes + r * 128 + (chunk % 8 ^ r % 8) * 16, words);
    }
    fence_async_shared();
    sync_threads(1 + wgroup, 128);
    if (warp == 0 && elect_one()) {
      for (int slab = 0; slab < slabs; ++slab)
        store_tile(p.d_map, d_tile + slab * slab_bytes, column + 64 * slab, row + 64 * wgroup, head, batch);
      store_commit();
      store_wait_read<0>();
    }
  }
}
)";

/// Copies boxes of 16x3x5x2x1 from array a to array d, both of five dimensions, and transposes 8x8 matrices.
inline constexpr const char* copy_source = R"(
extern "C" __global__ void __launch_bounds__(64) copy_boxes(const __grid_constant__ Params p) {
  const uint32 tile = (shared_address(dynamic_shared()) + 1023) & ~1023u, arrived = tile + 2048;
  constexpr int bytes = 16 * 3 * 5 * 2 * 4;
  const int x0 = static_cast<int>(block_index()) % 2 * 16, x4 = static_cast<int>(block_index()) / 2;
  if (thread_index() == 0) {
    barrier_init(arrived, 1);
    barriers_ready();
  }
  sync_block();
  if (warp_index() == 0) {
    if (elect_one()) {
      barrier_arrive_expecting(arrived, bytes);
      load_tile(tile, p.a_map, arrived, L2Hint::evict_first, x0, 0, 0, 0, x4);
    }
    sync_warp();
    barrier_wait(arrived, 0);
    arrive_threads(3, 64);
  } else {
    sync_threads(3, 64);
    if (elect_one()) {
      store_tile(p.d_map, tile, x0, 0, 0, 0, x4);
      store_commit();
      store_wait<0>();
    }
  }
}
extern "C" __global__ void __launch_bounds__(32) transpose(const __grid_constant__ Params p) {
  TUNESMITH_SHARED(uint32, tiles, 128);
  uint32 words[4];
  for (int i = 0; i < 4; ++i) words[i] = static_cast<const uint32*>(p.a)[32 * i + lane_index()];
  store_matrices_transposed(shared_address(tiles) + lane_index() * 16, words);
  sync_warp();
  for (int i = 0; i < 4; ++i) static_cast<uint32*>(p.d)[32 * i + lane_index()] = tiles[32 * i + lane_index()];
}
)";

/// Returns the source of a product kernel; `type` is "f16" or "bf16", `columns` 8 to 256.
inline std::string product_kernel(const std::string& name, const std::string& type, int columns, bool b_k_innermost,
                                  bool a_in_registers) {
  return "extern \"C\" __global__ void __launch_bounds__(384, 1) " + name +
         "(const __grid_constant__ Params p) {\n  product<" + type + ", " + std::to_string(columns) +
         ", Innermost::" + (b_k_innermost ? "k" : "n") + ", " + (a_in_registers ? "true" : "false") + ">(p);\n}\n";
}

/// Returns the dynamic shared memory of a product kernel.
inline std::int64_t product_smem_bytes(int columns, bool b_k_innermost) {
  const int slabs = (columns + 63) / 64;
  return 1024 + 2 * (2 * 8192 + (b_k_innermost ? columns * 128 : slabs * 8192)) + 2 * slabs * 8192 + 64;
}

/// Returns the complete source of these kernels.
inline std::string tensor_map_source(const std::string& kernels) {
  std::string instructions = "namespace tunesmith {\n";
  for (int columns = 8; columns <= 256; columns += 8) instructions += "TUNESMITH_WGMMA_" + std::to_string(columns) + "\n";
  return TemplateSet::embedded().flatten("device/wgmma.cuh") + instructions +
         "}  // namespace tunesmith\n#line 1 \"tensor_map_test.cu\"\n" + product_source + kernels;
}

}  // namespace tunesmith::test
