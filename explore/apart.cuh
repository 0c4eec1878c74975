// Design 4: the first warpgroup loads and computes dQ; two others compute S, dP, dV and dK and never meet.
#pragma once
#include "fused.cuh"

namespace tunesmith {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <const Config& c>
struct Multiplier : Consumer<c> {
  using Base = Consumer<c>;
  using L = Layout<c>;
  using Base::bars, Base::p, Base::group, Base::warp, Base::lane, Base::q_stage, Base::do_stage, Base::s, Base::dp, Base::dv, Base::dk,
      Base::p16, Base::ds16, Base::shared;
  using Base::Base;

  __device__ __forceinline__ void run(const Tile& tile) {
    const int q_tiles = p.seq / c.m;
    const int begin = c.causal ? tile.j * c.n / c.m : 0, count = q_tiles - begin;
    const int turn = c.causal ? 0 : tile.j * p.rotate % q_tiles;
    const int key = tile.j * c.n + group * 64 + 16 * warp + lane / 4;
#pragma unroll
    for (int i = 0; i < c.d / 2; ++i) dv[i] = dk[i] = 0.0f;
    Stage<2> ds_stage;
    constexpr bool ahead = (c.tweak & 256) != 0, early = (c.tweak & 512) != 0, fetch = (c.tweak & 2048) != 0;
    guarded_wait(bars.k_come(), 0);
    if constexpr (ahead) {
      guarded_wait(bars.q_come(0), 0);
      this->issue_s(0);
      if constexpr (fetch) this->fetch_lse(0);
      wgmma_wait<0>(s);
    }
    guarded_wait(bars.v_come(), 0);
    int q_tile = begin + turn;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      if constexpr (!ahead) {
        guarded_wait(bars.q_come(q_stage.index), q_stage.parity);
        this->issue_s(q_stage.index);
        wgmma_wait<0>(s);
      }
      this->exponentiate(q_stage.index, c.causal && q_tile * c.m < tile.j * c.n + c.n, q_tile * c.m, key);
      guarded_wait(bars.do_come(do_stage.index), do_stage.parity);
      this->issue_dp(do_stage.index);
      this->issue_dkv(dv, p16, L::do_at + do_stage.index * L::q_bytes);
      wgmma_wait<1>(dp);
      this->differentiate(do_stage.index);
      wgmma_wait<0>(dv);
      this->pin16(p16);
      if (lane == 0) barrier_arrive(bars.do_free(do_stage.index));
      do_stage.next();
      this->issue_dkv(dk, ds16, L::q_at + q_stage.index * L::q_bytes);
      const int old = q_stage.index;
      q_stage.next();
      if constexpr (ahead && early) {
        if (i + 1 < count) guarded_wait(bars.q_come(q_stage.index), q_stage.parity);
        this->issue_s(q_stage.index);
      }
      guarded_wait(bars.ds_free(ds_stage.index), ds_stage.parity ^ 1);
      this->store_ds(ds_stage.index);
      sync_warp();
      if (lane == 0) barrier_arrive(bars.ds_come(ds_stage.index));
      ds_stage.next();
      if constexpr (ahead) {
        if constexpr (!early) {
          if (i + 1 < count) guarded_wait(bars.q_come(q_stage.index), q_stage.parity);
          this->issue_s(q_stage.index);
        }
        if constexpr (fetch) this->fetch_lse(q_stage.index);
        wgmma_wait<1>(dk);
      } else {
        wgmma_wait<0>(dk);
      }
      this->pin16(ds16);
      if (lane == 0) barrier_arrive(bars.q_free(old));
      if constexpr (ahead) wgmma_wait<0>(s);
      if (++q_tile == q_tiles) q_tile = 0;
    }
    this->write_out(dv, 1.0f, L::v_at, p.dv, tile.bh, tile.j * c.n + group * 64);
    sync_threads(1, L::threads);
    this->write_out(dk, p.scale, L::k_at, p.dk, tile.bh, tile.j * c.n + group * 64);
    if (lane == 0) store_wait<0>();
  }
};

// Loads, and dQ in two halves: of columns for 64 queries and d 128, of queries for 128 queries.
template <const Config& c>
struct Loader {
  using L = Layout<c>;
  static constexpr int halves = c.m / 64 * L::slabs, stages = c.q_stages;
  static_assert(c.q_stages == c.do_stages);
  const Params& p;
  const uint32 shared;
  const Bars<c> bars;
  const int warp, lane;
  const Tile tile;

  __device__ __forceinline__ void load(int at, const TensorMap& map, uint32 come, int slab_bytes, int first, L2Hint hint) const {
#pragma unroll
    for (int slab = 0; slab < L::slabs; ++slab) load_tile(shared + at + slab * slab_bytes, map, come, hint, slab * 64, first, tile.bh, 0);
  }
  __device__ __forceinline__ void load_q(int stage, int q_tile) const {
    barrier_arrive_expecting(bars.q_come(stage), L::q_bytes + c.m * 4);
    load(L::q_at + stage * L::q_bytes, p.q, bars.q_come(stage), L::q_slab, q_tile * c.m, L2Hint::evict_last);
    copy_bulk(shared + L::lse_at + stage * c.m * 4, p.lse2 + static_cast<int64>(tile.bh) * p.seq + q_tile * c.m, c.m * 4,
              bars.q_come(stage), L2Hint::evict_last);
  }
  __device__ __forceinline__ void load_do(int stage, int q_tile) const {
    barrier_arrive_expecting(bars.do_come(stage), L::q_bytes + c.m * 4);
    load(L::do_at + stage * L::q_bytes, p.d_o, bars.do_come(stage), L::q_slab, q_tile * c.m, L2Hint::evict_last);
    copy_bulk(shared + L::delta_at + stage * c.m * 4, p.delta + static_cast<int64>(tile.bh) * p.seq + q_tile * c.m, c.m * 4,
              bars.do_come(stage), L2Hint::evict_last);
  }

  __device__ __forceinline__ void send(float* to, int half) const {
    if constexpr (c.dq != DqOut::bulk) return;
    fence_async_shared();
    sync_warp();
    if (lane == 0 && to != nullptr) {
      reduce_bulk<c.tweak>(to, shared + L::dq_at + (half * 4 + warp) * 4096, 4096);
      store_commit();
    }
  }

  __device__ __forceinline__ void run() {
    const int q_tiles = p.seq / c.m;
    const int begin = c.causal ? tile.j * c.n / c.m : 0, count = q_tiles - begin;
    int q_tile = begin + (c.causal ? 0 : tile.j * p.rotate % q_tiles), ahead = q_tile;
    const bool loads = warp == 0 && elect_one();
    if (loads) {
      barrier_arrive_expecting(bars.k_come(), L::kv_bytes);
      load(L::k_at, p.k, bars.k_come(), L::kv_slab, tile.j * c.n, L2Hint::evict_first);
      load_q(0, q_tile);
      barrier_arrive_expecting(bars.v_come(), L::kv_bytes);
      load(L::v_at, p.v, bars.v_come(), L::kv_slab, tile.j * c.n, L2Hint::evict_first);
      load_do(0, q_tile);
    }
#pragma unroll
    for (int stage = 0; stage < stages; ++stage) {
      if (stage > 0 && stage < count && loads) load_q(stage, ahead), load_do(stage, ahead);
      if (++ahead == q_tiles) ahead = 0;
    }
    Stage<2> ds_stage;
    Stage<stages> stage;
    float* waiting = nullptr;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      guarded_wait(bars.ds_come(ds_stage.index), ds_stage.parity);
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        float dq[32];
        const MatrixDescriptor a =
            matrix_descriptor(shared + L::ds_at + ds_stage.index * L::ds_bytes + (c.m == 128 ? half * 64 * 128 : 0), 1024);
        const MatrixDescriptor b = matrix_descriptor(shared + L::k_at + (c.m == 128 ? 0 : half * L::kv_slab), 1024, L::kv_slab);
        wgmma_fence(dq);
#pragma unroll
        for (int k = 0; k < c.n / 16; ++k)
          wgmma<bf16, Innermost::n>(dq, advance(a, k / 4 * L::ds_slab + k % 4 * 32), advance(b, k * 2048), k > 0);
        wgmma_commit();
        if (half == 0 && loads && i + stages < count) {
          guarded_wait(bars.do_free(stage.index), stage.parity);
          load_do(stage.index, ahead);
          guarded_wait(bars.q_free(stage.index), stage.parity);
          load_q(stage.index, ahead);
        }
        sync_warp();
        if constexpr ((c.tweak & 1024) != 0) send(waiting, half == 0 ? halves - 1 : half - 1);
        wgmma_wait<0>(dq);
        if (half == halves - 1 && lane == 0) barrier_arrive(bars.ds_free(ds_stage.index));
        if constexpr (c.dq == DqOut::bulk) {
          const uint32 from = shared + L::dq_at + (half * 4 + warp) * 4096;
          const int block = c.m == 128 ? (tile.bh * (p.seq / 64) + q_tile * 2 + half) : (tile.bh * (p.seq / 64) + q_tile) * L::slabs + half;
          float* const to = p.dq_acc + static_cast<int64>(block) * 4096 + warp * 1024;
          if (lane == 0) store_wait_read<halves - 1>();
          sync_warp();
#pragma unroll
          for (int j = 0; j < 8; ++j) sts4(from + j * 512 + lane * 16, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
          waiting = to;
          if constexpr ((c.tweak & 1024) == 0) send(waiting, half);
        } else if constexpr (c.dq == DqOut::red) {
          const int block = c.m == 128 ? (tile.bh * (p.seq / 64) + q_tile * 2 + half) : (tile.bh * (p.seq / 64) + q_tile) * L::slabs + half;
          float* const to = p.dq_acc + static_cast<int64>(block) * 4096 + warp * 1024 + lane * 4;
#pragma unroll
          for (int j = 0; j < 8; ++j) red4(to + j * 128, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
        } else if (p.rotate == 0x7fffffff) {
          // Never: keeps the product.
#pragma unroll
          for (int j = 0; j < 8; ++j) red4(p.dq_acc + j * 128, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
        }
      }
      ds_stage.next();
      stage.next();
      if (++ahead == q_tiles) ahead = 0;
      if (++q_tile == q_tiles) q_tile = 0;
    }
    arrive_threads(1, L::threads);
    if constexpr ((c.tweak & 1024) != 0) send(waiting, halves - 1);
    if (lane == 0) store_wait<0>();
  }
};

template <const Config& c>
__global__ void __launch_bounds__(Layout<c>::threads, 1) fused_apart(const __grid_constant__ Params p) {
  using L = Layout<c>;
  unsigned char* const memory = dynamic_shared();
  const uint32 shared = shared_address(memory);
  const Bars<c> bars = {shared + L::barriers_at};
  if (thread_index() == 0) {
    for (const TensorMap* map : {&p.q, &p.k, &p.v, &p.d_o}) prefetch_tensor_map(*map);
    for (int i = 0; i < c.q_stages; ++i) barrier_init(bars.q_come(i), 1), barrier_init(bars.q_free(i), 4 * L::groups);
    for (int i = 0; i < c.do_stages; ++i) barrier_init(bars.do_come(i), 1), barrier_init(bars.do_free(i), 4 * L::groups);
    for (int i = 0; i < 2; ++i) barrier_init(bars.ds_come(i), 4 * L::groups), barrier_init(bars.ds_free(i), 4);
    barrier_init(bars.k_come(), 1);
    barrier_init(bars.v_come(), 1);
    barriers_ready();
  }
  sync_block();
  const Tile tile = tile_of(p, static_cast<int>(blockIdx.x), p.seq / c.n);
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    give_registers<88>();
    Loader<c>{p, shuffle(shared, 0), {shuffle(shared, 0) + L::barriers_at}, warp_index() & 3, lane_index(), tile}.run();
  } else {
    take_registers<208>();
    Multiplier<c>(p, shared, group - 1).run(tile);
  }
}
#endif
}  // namespace tunesmith
