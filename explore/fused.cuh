// Exploration: fused attention backward on Hopper, five products. See LOG.md.
#pragma once
#include "device/bulk.cuh"
#include "device/wgmma.cuh"

namespace tunesmith {
TUNESMITH_WGMMA_64
TUNESMITH_WGMMA_128
TUNESMITH_WGMMA_32

enum class DqOut { none, red, bulk };

struct Config {
  int d, m, n;      // head dim, queries and keys of a tile
  int q_stages, do_stages;
  bool causal;
  DqOut dq;
  bool exps;        // false: P = S, to see what exp costs
  bool p16;         // dS from the rounded P
  int dq_stages;    // buffers of dQ in shared memory
  int tweak;        // 1 evict_last, 2 one reduction per warpgroup, 4 private destination, 8 store instead of reduce,
                    // 16 only warpgroup 0, 32 half by red, half by bulk
};

struct Params {
  TensorMap q, k, v, d_o, dk, dv;
  const float* lse2;   // [bh][seq], log2 units
  const float* delta;  // [bh][seq]
  float* dq_acc;       // [bh][seq/64][d/64][4 warps][8][32][4]
  int seq, bh, heads_per_section, rotate;
  float scale, scale_log2;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <const Config& c>
struct Layout {
  static constexpr int groups = c.n / 64, threads = 128 * (groups + 1);
  static constexpr int slabs = c.d / 64;
  static constexpr int kv_slab = c.n * 128, q_slab = c.m * 128;
  static constexpr int kv_bytes = slabs * kv_slab, q_bytes = slabs * q_slab;
  static constexpr int ds_slab = c.m * 128, ds_bytes = groups * ds_slab;
  static constexpr int k_at = 0, v_at = kv_bytes, q_at = 2 * kv_bytes, do_at = q_at + c.q_stages * q_bytes,
                       ds_at = do_at + c.do_stages * q_bytes, dq_at = ds_at + 2 * ds_bytes,
                       lse_at = dq_at + (c.dq == DqOut::bulk ? c.dq_stages * c.m * c.d * 4 : 0), delta_at = lse_at + c.q_stages * c.m * 4,
                       barriers_at = delta_at + c.do_stages * c.m * 4,
                       bytes = barriers_at + 8 * (2 * c.q_stages + 2 * c.do_stages + 2 + 4);
};

template <const Config& c>
struct Bars {
  uint32 base;
  __device__ __forceinline__ uint32 q_come(int s) const { return base + 8 * s; }
  __device__ __forceinline__ uint32 q_free(int s) const { return base + 8 * (c.q_stages + s); }
  __device__ __forceinline__ uint32 do_come(int s) const { return base + 8 * (2 * c.q_stages + s); }
  __device__ __forceinline__ uint32 do_free(int s) const { return base + 8 * (2 * c.q_stages + c.do_stages + s); }
  __device__ __forceinline__ uint32 k_come() const { return base + 8 * (2 * c.q_stages + 2 * c.do_stages); }
  __device__ __forceinline__ uint32 v_come() const { return k_come() + 8; }
  __device__ __forceinline__ uint32 ds_come(int s) const { return k_come() + 16 + 8 * s; }
  __device__ __forceinline__ uint32 ds_free(int s) const { return k_come() + 32 + 8 * s; }
};

__device__ __forceinline__ void guarded_wait(uint32 barrier, uint32 parity) {
  
  while (!barrier_try(barrier, parity))
    ;
}

struct Tile {
  int bh, j;
};
__device__ __forceinline__ Tile tile_of(const Params& p, int number, int kv_tiles) {
  const int per = p.heads_per_section * kv_tiles, section = number / per, rest = number - section * per;
  const int first = section * p.heads_per_section;
  const int heads = p.bh - first < p.heads_per_section ? p.bh - first : p.heads_per_section;
  const int j = rest / heads;
  return {first + rest - j * heads, j};
}

__device__ __forceinline__ void red4(float* to, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
__device__ __forceinline__ void sts4(uint32 to, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
__device__ __forceinline__ float2 lds2(uint32 from) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
  return x;
}
template <int tweak>
__device__ __forceinline__ void reduce_bulk(float* to, uint32 from, int bytes) {
  if constexpr ((tweak & 8) != 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
  else if constexpr ((tweak & 1) != 0)
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%0], [%1], %2, %3;" ::"l"(to),
                 "r"(from), "r"(bytes), "l"(static_cast<uint64>(L2Hint::evict_last))
                 : "memory");
  else
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}

template <const Config& c>
struct Consumer {
  using L = Layout<c>;
  static constexpr int regs = c.m / 2, steps = c.m / 16;
  static constexpr int dq_n = c.m == 64 ? c.d / L::groups : c.d;  // columns of dQ of this warpgroup

  const Params& p;
  const uint32 shared;
  const Bars<c> bars;
  const int group, warp, lane;
  Stage<c.q_stages> q_stage;
  Stage<c.do_stages> do_stage;
  float s[regs], dp[regs], dv[c.d / 2], dk[c.d / 2];
  uint32 p16[steps][4], ds16[steps][4];
  float* waiting = nullptr;  // a piece of dQ in shared memory, not sent yet
  uint32 waiting_from = 0;

  __device__ __forceinline__ Consumer(const Params& params, uint32 smem, int which)
      : p(params), shared(shuffle(smem, 0)), bars{shared + L::barriers_at}, group(which), warp(warp_index() & 3),
        lane(lane_index()) {}

  __device__ __forceinline__ void issue_s(int stage) {
    const MatrixDescriptor a = matrix_descriptor(shared + L::k_at + group * 64 * 128, 1024);
    const MatrixDescriptor b = matrix_descriptor(shared + L::q_at + stage * L::q_bytes, 1024);
    wgmma_fence(s);
#pragma unroll
    for (int k = 0; k < c.d / 16; ++k)
      wgmma<bf16, Innermost::k>(s, advance(a, k / 4 * L::kv_slab + k % 4 * 32), advance(b, k / 4 * L::q_slab + k % 4 * 32), k > 0);
    wgmma_commit();
  }
  __device__ __forceinline__ void issue_dp(int stage) {
    const MatrixDescriptor a = matrix_descriptor(shared + L::v_at + group * 64 * 128, 1024);
    const MatrixDescriptor b = matrix_descriptor(shared + L::do_at + stage * L::q_bytes, 1024);
    wgmma_fence(dp);
#pragma unroll
    for (int k = 0; k < c.d / 16; ++k)
      wgmma<bf16, Innermost::k>(dp, advance(a, k / 4 * L::kv_slab + k % 4 * 32), advance(b, k / 4 * L::q_slab + k % 4 * 32), k > 0);
    wgmma_commit();
  }
  __device__ __forceinline__ void pin16(uint32 (&w)[steps][4]) {
#pragma unroll
    for (int i = 0; i < steps; ++i) pin(w[i]);
  }
  __device__ __forceinline__ void issue_dkv(float (&acc)[c.d / 2], uint32 (&w)[steps][4], int at) {
    const MatrixDescriptor b = matrix_descriptor(shared + at, 1024, L::q_slab);
    pin16(w);
    wgmma_fence(acc);
#pragma unroll
    for (int k = 0; k < steps; ++k) wgmma<bf16, Innermost::n>(acc, w[k], advance(b, k * 2048), true);
    wgmma_commit();
  }
  __device__ __forceinline__ void issue_dq(float (&dq)[dq_n / 2], int stage) {
    const MatrixDescriptor a =
        matrix_descriptor(shared + L::ds_at + stage * L::ds_bytes + (c.m == 128 ? group * 64 * 128 : 0), 1024);
    const int column = c.m == 128 ? 0 : group * dq_n;
    const MatrixDescriptor b =
        matrix_descriptor(shared + L::k_at + column / 64 * L::kv_slab + column % 64 * 2, 1024, L::kv_slab);
    wgmma_fence(dq);
#pragma unroll
    for (int k = 0; k < c.n / 16; ++k)
      wgmma<bf16, Innermost::n>(dq, advance(a, k / 4 * L::ds_slab + k % 4 * 32), advance(b, k * 2048), k > 0);
    wgmma_commit();
  }

  float2 lse_ahead[(c.tweak & 2048) != 0 ? regs / 4 : 1];
  __device__ __forceinline__ void fetch_lse(int stage) {
    const uint32 at = shared + L::lse_at + stage * c.m * 4 + lane % 4 * 8;
#pragma unroll
    for (int j = 0; j < regs / 4; ++j) lse_ahead[j] = lds2(at + j * 32);
  }
  // Rows are keys, columns queries: column 8 j + 2 (lane % 4).
  __device__ __forceinline__ void exponentiate(int stage, bool partial, int first_q, int key) {
    const uint32 at = shared + L::lse_at + stage * c.m * 4 + lane % 4 * 8;
    if (c.causal && partial) {
#pragma unroll
      for (int i = 0; i < regs; ++i) {
        const int q = first_q + i / 4 * 8 + lane % 4 * 2 + (i & 1), k = key + (i & 2) * 4;
        if (k > q) s[i] = float_of(0xff800000u);
      }
    }
#pragma unroll
    for (int j = 0; j < regs / 4; ++j) {
      float2 l;
      if constexpr ((c.tweak & 2048) != 0) l = lse_ahead[j]; else l = lds2(at + j * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = fused_multiply_add(s[4 * j + i], p.scale_log2, -((i & 1) ? l.y : l.x));
        s[4 * j + i] = c.exps ? exp2_approx(x) : x;
      }
      p16[j / 2][j % 2 * 2] = pack<bf16>(s[4 * j], s[4 * j + 1]);
      p16[j / 2][j % 2 * 2 + 1] = pack<bf16>(s[4 * j + 2], s[4 * j + 3]);
    }
  }
  __device__ __forceinline__ void differentiate(int stage) {
    const uint32 at = shared + L::delta_at + stage * c.m * 4 + lane % 4 * 8;
#pragma unroll
    for (int j = 0; j < regs / 4; ++j) {
      const float2 l = lds2(at + j * 32);
      float w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float weight = s[4 * j + i];
        if constexpr (c.p16) {
          const uint32 both = p16[j / 2][j % 2 * 2 + i / 2];
          weight = float_of(i & 1 ? both & 0xffff0000u : both << 16);
        }
        w[i] = multiply(weight, subtract(dp[4 * j + i], (i & 1) ? l.y : l.x));
      }
      ds16[j / 2][j % 2 * 2] = pack<bf16>(w[0], w[1]);
      ds16[j / 2][j % 2 * 2 + 1] = pack<bf16>(w[2], w[3]);
    }
  }
  __device__ __forceinline__ void store_ds(int stage) {
    const uint32 at = shared + L::ds_at + stage * L::ds_bytes + group * L::ds_slab + (lane >> 4) * 1024 + (lane & 7) * 128 +
                      (((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) * 16);
#pragma unroll
    for (int k = 0; k < steps; ++k) store_matrices_transposed(at + k * 2048, ds16[k]);
    fence_async_shared();
  }
  __device__ __forceinline__ void reduce_dq(float (&dq)[dq_n / 2], int bh, int q_tile, int turn) {
    if constexpr (c.dq == DqOut::none) return;
    if ((c.tweak & 16) && group == 1) return;
    constexpr int pieces = dq_n / 8;
    int block = c.m == 128 ? (bh * (p.seq / 64) + q_tile * 2 + group) * L::slabs : (bh * (p.seq / 64) + q_tile) * L::slabs;
    if constexpr ((c.tweak & 4) != 0) {
      int sm;
      asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
      block = (2 * sm + (turn & 1)) * L::slabs;
    }
    const int column = c.m == 128 ? 0 : group * dq_n;
    // [block of 64 columns][warp][8][32][4]
    float* to = p.dq_acc + static_cast<int64>(block) * 4096 + column / 64 * 4096 + column % 64 * 16;
    constexpr int by_red = c.dq == DqOut::red ? pieces : (c.tweak & 32) ? pieces / 2 : 0;
    if constexpr (by_red < pieces) {
      constexpr bool whole = (c.tweak & 2) != 0;
      constexpr int bulk = pieces - by_red;
      const int stage = c.dq_stages == 1 ? 0 : turn % c.dq_stages;
      const uint32 area = shared + L::dq_at + (stage * L::groups + group) * (4 * pieces * 512);
      const uint32 from = area + warp * (bulk * 512);
      const bool sends = whole ? warp == 0 && lane == 0 : lane == 0;
      if (sends) store_wait_read<c.dq_stages - 1>();
      if constexpr (whole) sync_threads(2 + here(group), 128); else sync_warp();
#pragma unroll
      for (int j = by_red; j < pieces; ++j)
        sts4(from + (j - by_red) * 512 + lane * 16, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
      if constexpr ((c.tweak & 192) != 0) {
        waiting = to + warp * 1024 + by_red * 128;
        waiting_from = from;
        return;
      }
      fence_async_shared();
      if constexpr (whole) sync_threads(2 + here(group), 128); else sync_warp();
      if (sends) {
        if constexpr (whole)
          reduce_bulk<c.tweak>(to, area, 4 * bulk * 512);
        else
          reduce_bulk<c.tweak>(to + warp * 1024 + by_red * 128, from, bulk * 512);
        store_commit();
      }
    }
    to += warp * 1024 + lane * 4;
#pragma unroll
    for (int j = 0; j < by_red; ++j) red4(to + j * 128, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
  }

  __device__ __forceinline__ void send_waiting() {
    if (lane == 0 && waiting != nullptr) {
      reduce_bulk<c.tweak>(waiting, waiting_from, dq_n / 8 * 512);
      store_commit();
    }
  }
  // A gradient of 64 keys to shared memory, laid out as K and V are, and from there to global memory.
  __device__ __forceinline__ void write_out(float (&acc)[c.d / 2], float scale, int at, const TensorMap& map, int bh, int first) {
    const uint32 to = shared + at + group * 64 * 128 + (16 * warp + (lane & 15)) * 128;
#pragma unroll
    for (int k = 0; k < c.d / 16; ++k) {
      const float* a = acc + 8 * k;
      const uint32 words[4] = {pack<bf16>(a[0] * scale, a[1] * scale), pack<bf16>(a[2] * scale, a[3] * scale),
                               pack<bf16>(a[4] * scale, a[5] * scale), pack<bf16>(a[6] * scale, a[7] * scale)};
      store_matrices(to + k / 4 * L::kv_slab + (((k % 4 * 2 + (lane >> 4)) ^ (lane & 7)) * 16), words);
    }
    fence_async_shared();
    sync_threads(2 + group, 128);
    if (warp == 0 && elect_one()) {
#pragma unroll
      for (int slab = 0; slab < L::slabs; ++slab)
        store_tile(map, shared + at + group * 64 * 128 + slab * L::kv_slab, slab * 64, first, bh, 0);
      store_commit();
    }
  }

  __device__ __forceinline__ void run(const Tile& tile) {
    const int q_tiles = p.seq / c.m;
    const int begin = c.causal ? tile.j * c.n / c.m : 0, count = q_tiles - begin;
    const int turn = c.causal ? 0 : tile.j * p.rotate % q_tiles;
    const int key = tile.j * c.n + group * 64 + 16 * warp + lane / 4;
#pragma unroll
    for (int i = 0; i < c.d / 2; ++i) dv[i] = dk[i] = 0.0f;
    guarded_wait(bars.k_come(), 0);
    guarded_wait(bars.q_come(0), 0);
    issue_s(0);
    wgmma_wait<0>(s);
    guarded_wait(bars.v_come(), 0);
    int q_tile = begin + turn;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const bool more = i + 1 < count;
      guarded_wait(bars.do_come(do_stage.index), do_stage.parity);
      issue_dp(do_stage.index);
      exponentiate(q_stage.index, c.causal && q_tile * c.m < tile.j * c.n + c.n, q_tile * c.m, key);
      issue_dkv(dv, p16, L::do_at + do_stage.index * L::q_bytes);
      if constexpr ((c.tweak & 64) != 0) {
        fence_async_shared();
        sync_warp();
        send_waiting();
      }
      wgmma_wait<1>(dp);
      differentiate(do_stage.index);
      issue_dkv(dk, ds16, L::q_at + q_stage.index * L::q_bytes);
      store_ds(i & 1);
      if constexpr ((c.tweak & 128) != 0) {
        sync_warp();
        send_waiting();
      }
      wgmma_wait<1>(dv);
      pin16(p16);
      if (lane == 0) barrier_arrive(bars.do_free(do_stage.index));
      do_stage.next();
      const int old = q_stage.index;
      q_stage.next();
      float dq[dq_n / 2];
      sync_threads(1, 128 * L::groups);
      issue_dq(dq, i & 1);
      // After the last tile a product that nobody reads: a branch would make the compiler serialize.
      if (more) guarded_wait(bars.q_come(q_stage.index), q_stage.parity);
      issue_s(q_stage.index);
      wgmma_wait<2>(dk);
      pin16(ds16);
      if (lane == 0) barrier_arrive(bars.q_free(old));
      wgmma_wait<1>(dq);
      reduce_dq(dq, tile.bh, q_tile, i);
      wgmma_wait<0>(s);
      if (++q_tile == q_tiles) q_tile = 0;
    }
    if constexpr ((c.tweak & 192) != 0) {
      fence_async_shared();
      sync_warp();
      send_waiting();
    }
    // V's rows of this warpgroup are read by none other; K's are.
    write_out(dv, 1.0f, L::v_at, p.dv, tile.bh, tile.j * c.n + group * 64);
    sync_threads(1, 128 * L::groups);
    write_out(dk, p.scale, L::k_at, p.dk, tile.bh, tile.j * c.n + group * 64);
    if (lane == 0) store_wait<0>();
  }
};

template <const Config& c>
__global__ void __launch_bounds__(Layout<c>::threads, 1) fused(const __grid_constant__ Params p) {
  using L = Layout<c>;
  unsigned char* const memory = dynamic_shared();
  const uint32 shared = shared_address(memory);
  const Bars<c> bars = {shared + L::barriers_at};
  if (thread_index() == 0) {
    for (const TensorMap* map : {&p.q, &p.k, &p.v, &p.d_o}) prefetch_tensor_map(*map);
    for (int i = 0; i < c.q_stages; ++i) barrier_init(bars.q_come(i), 1), barrier_init(bars.q_free(i), 4 * L::groups);
    for (int i = 0; i < c.do_stages; ++i) barrier_init(bars.do_come(i), 1), barrier_init(bars.do_free(i), 4 * L::groups);
    barrier_init(bars.k_come(), 1);
    barrier_init(bars.v_come(), 1);
    barriers_ready();
  }
  sync_block();
  const Tile tile = tile_of(p, static_cast<int>(blockIdx.x), p.seq / c.n);
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    give_registers<(L::groups == 3 ? 32 : 24)>();
    if (warp_index() == 0 && elect_one()) {
      const int q_tiles = p.seq / c.m;
      const int begin = c.causal ? tile.j * c.n / c.m : 0, count = q_tiles - begin;
      int q_tile = begin + (c.causal ? 0 : tile.j * p.rotate % q_tiles);
      const auto load = [&](int at, const TensorMap& map, uint32 come, int rows, int slab_bytes, int first, L2Hint hint) {
        for (int slab = 0; slab < L::slabs; ++slab) load_tile(shared + at + slab * slab_bytes, map, come, hint, slab * 64, first, tile.bh, 0);
      };
      Stage<c.q_stages> qs;
      Stage<c.do_stages> ds;
      for (int i = 0; i < count; ++i) {
        if (i == 0) {
          barrier_arrive_expecting(bars.k_come(), L::kv_bytes);
          load(L::k_at, p.k, bars.k_come(), c.n, L::kv_slab, tile.j * c.n, L2Hint::evict_first);
        }
        const int64 row = static_cast<int64>(tile.bh) * p.seq + q_tile * c.m;
        guarded_wait(bars.q_free(qs.index), qs.parity ^ 1);
        barrier_arrive_expecting(bars.q_come(qs.index), L::q_bytes + c.m * 4);
        load(L::q_at + qs.index * L::q_bytes, p.q, bars.q_come(qs.index), c.m, L::q_slab, q_tile * c.m, L2Hint::evict_last);
        copy_bulk(shared + L::lse_at + qs.index * c.m * 4, p.lse2 + row, c.m * 4, bars.q_come(qs.index), L2Hint::evict_last);
        qs.next();
        if (i == 0) {
          barrier_arrive_expecting(bars.v_come(), L::kv_bytes);
          load(L::v_at, p.v, bars.v_come(), c.n, L::kv_slab, tile.j * c.n, L2Hint::evict_first);
        }
        guarded_wait(bars.do_free(ds.index), ds.parity ^ 1);
        barrier_arrive_expecting(bars.do_come(ds.index), L::q_bytes + c.m * 4);
        load(L::do_at + ds.index * L::q_bytes, p.d_o, bars.do_come(ds.index), c.m, L::q_slab, q_tile * c.m, L2Hint::evict_last);
        copy_bulk(shared + L::delta_at + ds.index * c.m * 4, p.delta + row, c.m * 4, bars.do_come(ds.index), L2Hint::evict_last);
        ds.next();
        if (++q_tile == q_tiles) q_tile = 0;
      }
    }
  } else {
    take_registers<(L::groups == 3 ? 160 : 240)>();
    Consumer<c>(p, shared, group - 1).run(tile);
  }
}
#endif
}  // namespace tunesmith
