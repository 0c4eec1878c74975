// The warpgroups of attention_backward/wgmma.cuh that keep keys.
#pragma once

#include "attention_backward/wgmma_head_split.cuh"
#include "attention_backward/wgmma_masked_ring.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// A warpgroup of 64 keys.
template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaBackwardConfig& config>
struct Multiplier {
  using Tiles = WgmmaBackwardTiles<shape, config>;
  using Ring = RingOf<shape, Tiles, Tiles::in_order>;
  static constexpr int queries = Tiles::tile_q, steps = queries / 16;

  const WgmmaBackwardParams& params;
  const uint32 shared;
  const BackwardBarriers<config.stages> barriers;
  const int group, warp, lane;
  Stage<config.stages> q_stage, dout_stage;
  Stage<2> ds_stage;
  Stage<Tiles::p_stages> p_stage;
  Stage<2> item;  ///< of persistent blocks, see PersistentItems

  // S^T and dP^T: rows are keys, columns queries. P is kept in 16 bits only, so that dP reuses the registers of S. Masking P
  // instead of S would keep both copies alive: then ptxas runs out of registers and serializes all products.
  float scores[queries / 2], gradients[queries / 2];
  float dk[shape.head_dim / 2], dv[shape.head_dim_v / 2];
  uint32 weights[steps][4], factors[steps][4];  ///< P^T and dS^T, as operands of the products with dO and Q
  float slope_gradient = 0.0f;                  ///< of the ALiBi slope of `slope_head`
  int slope_head = -1;

  /// The derivative of P by the dot product is not P, or not the P of the product with dO. It is kept where dS will be, or
  /// sent to the other warpgroup.
  static constexpr bool has_slopes = Tiles::is_modified || shape.dropout;
  /// With dropout, a sign says whether the pair is dropped: the sign of P, which is 0 then, or of the derivative.
  /// Derivatives of score_mod have signs, and the gradient of an ALiBi slope needs P.
  static constexpr bool signed_weights = shape.dropout && (shape.score_mod || (shape.softcap && config.slopes));
  /// Dropped pairs add to the gradient of an ALiBi slope while their P is known.
  static constexpr bool early_slopes = shape.dropout && Tiles::is_modified && config.slopes;

  __device__ __forceinline__ Multiplier(const WgmmaBackwardParams& kernel_params, uint32 shared_memory, int warpgroup)
      : params(kernel_params),
        shared(shuffle(shared_memory, 0)),  // uniform for the warp, in a way that the compiler sees
        barriers{shared + Tiles::barriers_at},
        group(warpgroup),
        warp(warp_index() & 3),
        lane(lane_index()) {}

  /// Which 64 of the block's keys this warpgroup has.
  __device__ __forceinline__ int rows() const { return Tiles::by_gradient ? 0 : group; }

  /// Where K and V of persistent blocks are, after Tiles::k_at and v_at.
  __device__ __forceinline__ int kv_at() const { return Tiles::kv_stage(item) * Tiles::kv_bytes; }

  /// Issues products = A B^T with this warpgroup's rows of K or V, and a tile of Q or dO.
  template <int width>
  __device__ __forceinline__ void multiply_tile(float (&products)[queries / 2], int keys_at, int queries_at) {
    const MatrixDescriptor a =
        matrix_descriptor(Tiles::operand(shared) + kv_at() + keys_at + rows() * 64 * Tiles::row_bytes, 1024);
    const MatrixDescriptor b = matrix_descriptor(Tiles::operand(shared) + queries_at, 1024);
    multiply_slabs<Element, width, Tiles::kv_slab, Tiles::q_slab>(products, a, b);
  }
  __device__ __forceinline__ void multiply_queries() {
    multiply_tile<shape.head_dim>(scores, Tiles::k_at, Tiles::q_at + q_stage.index * Tiles::q_bytes);
  }
  __device__ __forceinline__ void multiply_gradients() {
    multiply_tile<shape.head_dim_v>(gradients, Tiles::v_at, Tiles::dout_at + dout_stage.index * Tiles::dout_bytes);
  }

  __device__ __forceinline__ static void pin_all(uint32 (&words)[steps][4]) {
#pragma unroll
    for (int step = 0; step < steps; ++step) pin(words[step]);
  }
  /// Issues sums += words * the tile of Q or dO at `queries_at`.
  template <int count>
  __device__ __forceinline__ void accumulate(float (&sums)[count], uint32 (&words)[steps][4], int queries_at) {
    const MatrixDescriptor b = matrix_descriptor(Tiles::operand(shared) + queries_at, 1024, Tiles::q_slab);
    pin_all(words);
    wgmma_fence(sums);
#pragma unroll
    for (int step = 0; step < steps; ++step) wgmma<Element, Innermost::n>(sums, words[step], advance(b, step * 2048), true);
    wgmma_commit();
  }

  /// The statistics of the two queries that are columns 8 * `block` + 2 * (lane % 4) and the next.
  __device__ __forceinline__ Bits<8> statistics(int at, int stage, int block) const {
    return load_shared<8>(shared + at + stage * queries * 4 + block * 32 + lane % 4 * 8);
  }

  using DroppedPairs = typename DroppedOf<shape>::Pairs;
  using Dropped = typename DroppedOf<shape>::template BitsOf<true, queries / 2>;
  /// Which pairs of a tile are dropped. Does not depend on S, so it is called while the product runs.
  __device__ __forceinline__ Dropped dropped_pairs(const Ring& ring, const WgmmaKeys& keys) const {
    return Dropped(DroppedPairs(&params.backward.dropout, keys.batch, ring.head()),
                   keys.first_k + 64 * rows() + 16 * warp + lane / 4, ring.first_q() + lane % 4 * 2);
  }

  /// S becomes P, in 16 bits. `kept`: mask_mod keeps all visible pairs.
  template <typename Rule>
  __device__ __forceinline__ void exponentiate(const Rule& pairs, const Dropped& dropped, int first_q, int first_k,
                                               bool kept) {
    const int column = first_q + lane % 4 * 2, row = first_k + 16 * warp + lane / 4;
    const auto& visibility = pairs.visibility();
    if constexpr (shape.softcap) AttentionFeatures<shape>::CapSteps::cap(scores, params.backward.attention);
    const bool inside = visibility.of_all(first_q, first_q + queries - 1).holds(first_k, first_k + 63);
    if constexpr (shape.score_mod) {  // which is not called for masked pairs
      if (inside && kept)
        weigh<true>(pairs, dropped, column, row, true, true);
      else
        weigh<false>(pairs, dropped, column, row, inside, kept);
      return;
    }
    if (!(inside && kept)) {
#pragma unroll
      for (int i = 0; i < queries / 2; ++i) {
        const int query = column + i / 4 * 8 + i % 2, key = row + i / 2 % 2 * 8;
        if (!(shape.mask_mod ? pairs.counts(query, key, inside, kept) : visibility.sees(query, key)))
          scores[i] = Maximum::identity();
      }
    }
    weigh<true>(pairs, dropped, column, row, true, true);
  }
  /// The same for pairs that are all unmasked, or whose scores are -inf if they are masked, unless `all` is false.
  template <bool all, typename Rule>
  __device__ __forceinline__ void weigh(const Rule& pairs, const Dropped& dropped, int column, int row, bool inside,
                                        bool kept) {
#pragma unroll
    for (int block = 0; block < queries / 8; ++block) {
      const Bits<8> lse = statistics(Tiles::lse_at, q_stage.index, block);
      float* const pair = scores + 4 * block;
      float slopes[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = column + 8 * block + i % 2, key = row + i / 2 * 8;
        const float row_lse = float_of(lse.word[i % 2]);
        if (!all && !pairs.counts(query, key, inside, kept)) {
          pair[i] = slopes[i] = 0.0f;
        } else if constexpr (Tiles::is_modified) {
          const Pair found = pairs.of_capped(pair[i], query, key, row_lse);
          pair[i] = found.probability;
          slopes[i] = multiply(found.slope, found.probability);
        } else {
          pair[i] = slopes[i] = pairs(pair[i], query, key, row_lse).probability;
        }
        if constexpr (shape.dropout) {
          if (dropped[4 * block + i]) {
            if constexpr (early_slopes) {
              const Bits<8> delta = statistics(Tiles::delta_at, dout_stage.index, block);
              include_slope(-multiply(pair[i], float_of(delta.word[i % 2])), query + pairs.visibility().offset - key);
            }
            pair[i] = signed_weights ? -0.0f : 0.0f;
            if constexpr (!signed_weights) slopes[i] = -slopes[i];
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weights[block / 2][block % 2 * 2 + half] = pack<Element>(pair[2 * half], pair[2 * half + 1]);
        if constexpr (has_slopes)
          factors[block / 2][block % 2 * 2 + half] = pack<Element>(slopes[2 * half], slopes[2 * half + 1]);
      }
    }
  }
  /// dP - delta. The dP of a dropped pair is 0. If its `slope` is negative: delta, so that their product is right.
  __device__ __forceinline__ float difference(float product, float delta, float slope, bool negative_weight) const {
    if constexpr (!shape.dropout) return subtract(product, delta);
    if constexpr (signed_weights)
      return fused_multiply_add(negative_weight ? 0.0f : product, params.backward.dropout.factor, -delta);
    return slope < 0.0f ? delta : fused_multiply_add(product, params.backward.dropout.factor, -delta);
  }
  /// dP becomes dS.
  __device__ __forceinline__ void differentiate(const Ring& ring, const WgmmaKeys& keys) {
    if constexpr (config.slopes) start_head(ring.head(), keys);
    const int before = position_of(ring, keys);
#pragma unroll
    for (int block = 0; block < queries / 8; ++block) {
      const Bits<8> delta = statistics(Tiles::delta_at, dout_stage.index, block);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32 pair = weights[block / 2][block % 2 * 2 + half];
        uint32& factor = factors[block / 2][block % 2 * 2 + half];
        const uint32 slope = has_slopes && (!Tiles::by_gradient || Tiles::both_kinds) ? factor : pair;
        const float* const products = gradients + 4 * block + 2 * half;
        const float slopes[2] = {to_float(Element{static_cast<uint16>(slope)}),
                                 to_float(Element{static_cast<uint16>(slope >> 16)})};
        float differences[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          differences[i] = difference(products[i], float_of(delta.word[i]), slopes[i], (pair >> (16 * i + 15) & 1) != 0);
        factor = pack<Element>(multiply(slopes[0], differences[0]), multiply(slopes[1], differences[1]));
        if constexpr (config.slopes) {
          const int distance = before + 8 * block - 8 * half;
          const float probabilities[2] = {to_float(Element{static_cast<uint16>(pair)}),
                                          to_float(Element{static_cast<uint16>(pair >> 16)})};
#pragma unroll
          for (int i = 0; i < 2; ++i)
            include_slope(multiply(Tiles::is_modified ? probabilities[i] : slopes[i], differences[i]), distance + i);
        }
      }
    }
  }

  // The gradient of the ALiBi slope: a warp's sum of the pairs of one head goes to its own place in the workspace, which the
  // first kernel has zeroed. Sums of several heads, and of a head that the ring visits twice, follow each other.
  /// Position of this thread's first query relative to its first key.
  __device__ __forceinline__ int position_of(const Ring& ring, const WgmmaKeys& keys) const {
    return ring.first_q() + lane % 4 * 2 + ring.offset() - (keys.first_k + 64 * rows() + 16 * warp + lane / 4);
  }
  __device__ __forceinline__ void include_slope(float score_gradient, int distance) {
    slope_gradient = fused_multiply_add(-score_gradient, absolute(static_cast<float>(distance)), slope_gradient);
  }
  __device__ __forceinline__ void start_head(int head, const WgmmaKeys& keys) {
    if (head == slope_head) return;
    finish_head(keys);
    slope_head = head;
    slope_gradient = 0.0f;
  }
  __device__ __forceinline__ void finish_head(const WgmmaKeys& keys) const {
    const float sum = reduce_lanes<32>(slope_gradient, Sum());
    if (lane != 0 || slope_head < 0) return;
    float* const part = slope_part(params.backward, keys.batch, slope_head, keys.first_k / 64 + rows()) + warp;
    *part = add(*part, sum);
  }

  /// Stores dS, transposed back, for the product with K, unless another kernel computes it.
  __device__ __forceinline__ void send_factors() {
    if constexpr (Tiles::separate_dq) return;
    barrier_wait(barriers.ds_empty(ds_stage.index), ds_stage.parity ^ 1);
    const int chunk = 2 * warp + (lane >> 3 & 1), row = (lane >> 4) * 8 + (lane & 7);
    const uint32 to = shared + Tiles::ds_at + ds_stage.index * Tiles::ds_bytes + rows() * Tiles::q_slab +
                      row * Tiles::row_bytes + (chunk ^ (lane & 7)) * 16;
#pragma unroll
    for (int step = 0; step < steps; ++step) store_matrices_transposed(to + step * 2048, factors[step]);
    fence_async_shared();
    arrive(barriers.ds_full(ds_stage.index));
    ds_stage.next();
  }
  __device__ __forceinline__ void arrive(uint32 barrier) const {
    sync_warp();
    if (lane == 0) barrier_arrive(barrier);
  }

  /// Sends P, or its derivative by the dot product, or both, to the warpgroup that computes dS of the same pairs.
  __device__ __forceinline__ void send_weights() {
    barrier_wait(barriers.p_empty(p_stage.index), p_stage.parity ^ 1);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      store_shared(weights_at() + step * 2048, has_slopes && !Tiles::both_kinds ? factors[step] : weights[step]);
      if constexpr (Tiles::both_kinds) store_shared(weights_at() + Tiles::p_bytes + step * 2048, factors[step]);
    }
    arrive(barriers.p_full(p_stage.index));
    p_stage.next();
  }
  __device__ __forceinline__ void receive_weights() {
    barrier_wait(barriers.p_full(p_stage.index), p_stage.parity);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const Bits<16> words = load_shared<16>(weights_at() + step * 2048);
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[step][i] = words.word[i];
      if constexpr (Tiles::both_kinds) {
        const Bits<16> slopes = load_shared<16>(weights_at() + Tiles::p_bytes + step * 2048);
#pragma unroll
        for (int i = 0; i < 4; ++i) factors[step][i] = slopes.word[i];
      }
    }
    arrive(barriers.p_empty(p_stage.index));
    p_stage.next();
  }
  __device__ __forceinline__ uint32 weights_at() const {
    return shared + Tiles::p_at + p_stage.index * Tiles::p_bytes + (warp * 32 + lane) * 16;
  }

  /// Leaves a gradient of 64 keys in the shared memory of their rows of K or V.
  template <int width>
  __device__ __forceinline__ void stage_rows(const float (&sums)[width / 2], float factor, int at) {
    const uint32 row = shared + kv_at() + at + (rows() * 64 + 16 * warp + (lane & 15)) * Tiles::row_bytes;
#pragma unroll
    for (int step = 0; step < width / 16; ++step) {
      uint32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pack<Element>(multiply(sums[8 * step + 2 * i], factor), multiply(sums[8 * step + 2 * i + 1], factor));
      store_matrices(row + step / 4 * Tiles::kv_slab + ((step % 4 * 2 + (lane >> 4)) ^ (lane & 7)) * 16, words);
    }
    fence_async_shared();
  }
  /// Writes a gradient of 64 keys, through the shared memory of their rows of K or V.
  template <int width>
  __device__ __forceinline__ void write(const float (&sums)[width / 2], float factor, int at, const TensorMap& map,
                                        const WgmmaKeys& keys) {
    const uint32 from = shared + at + rows() * 64 * Tiles::row_bytes;
    stage_rows<width>(sums, factor, at);
    sync_threads(2 + here(group), 128);
    if (warp == 0 && elect_one()) {
      const Sequence sequence = sequence_of<shape>(params.backward.attention, keys.batch);
      const MapPlace place = map_place<shape>(params.backward.attention.seq_kv, sequence.kv_start, sequence.seq_kv,
                                              keys.batch, keys.first_k + 64 * rows());
#pragma unroll
      for (int slab = 0; slab < (width + 63) / 64; ++slab)
        if constexpr (config.accumulate)
          add_tile(map, from + slab * Tiles::kv_slab, slab * 64, place.row, keys.kv_head, place.entry);
        else
          store_tile(map, from + slab * Tiles::kv_slab, slab * 64, place.row, keys.kv_head, place.entry);
      store_commit();
    }
  }
  /// Waits until the stores of write() have read shared memory, before the block exits.
  __device__ __forceinline__ void finish_writes() const {
    if (warp == 0 && elect_one()) {
      store_wait_read<0>();
    }
  }

  /// Waits until no warpgroup reads the tiles that dK replaces, or K and V of both. Without dQ, warpgroups of 64 keys read
  /// their own rows only.
  __device__ __forceinline__ void await_readers() const {
    if constexpr (!Tiles::separate_dq && !Tiles::dk_in_q_tiles)
      sync_threads(1, Tiles::threads);
    else if constexpr (Tiles::by_gradient || Tiles::dk_in_q_tiles)
      sync_threads(1, 128 * Tiles::multipliers);
  }

  __device__ __forceinline__ WgmmaKeys keys_of(int number) const {
    return WgmmaKeys(params.backward, Tiles::tile_kv, number, Tiles::last_first);
  }
  /// Computes dk and dv of the keys whose number is at `ticket`. Returns whether some query sees one of them.
  __device__ __forceinline__ bool sum(uint32 ticket) {
    const WgmmaKeys keys = keys_of(block_number<config>(ticket));
    const AttentionParams& attention = params.backward.attention;
    const Sequence sequence = sequence_of<shape>(attention, keys.batch);
    Ring ring(attention, Visibility<shape>(attention, sequence), keys, keys.first_k + 64 * rows());
#pragma unroll
    for (int i = 0; i < shape.head_dim / 2; ++i) dk[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < shape.head_dim_v / 2; ++i) dv[i] = 0.0f;
    const int count = ring.count();
    if (count > 0) {
      if constexpr (!Tiles::loads_early) barrier_wait(barriers.k_full(Tiles::kv_stage(item)), Tiles::kv_parity(item));
      if constexpr (config.ahead) {
        barrier_wait(barriers.q_full(0), 0);
        multiply_queries();
        wgmma_wait<0>(scores);
      }
      if constexpr (!Tiles::loads_early) barrier_wait(barriers.v_full(Tiles::kv_stage(item)), Tiles::kv_parity(item));
#pragma unroll 1
      for (int left = count - 1; left >= 0; --left) {
        if constexpr (!config.ahead) {
          barrier_wait(barriers.q_full(q_stage.index), q_stage.parity);
          multiply_queries();
        }
        const Dropped dropped = dropped_pairs(ring, keys);
        if constexpr (!config.ahead) wgmma_wait<0>(scores);
        if constexpr (early_slopes) {
          start_head(ring.head(), keys);
          barrier_wait(barriers.dout_full(dout_stage.index), dout_stage.parity);
        }
        exponentiate(Pairs<shape, Modification>(attention, sequence, keys.batch, ring.head()), dropped, ring.first_q(),
                     keys.first_k + 64 * rows(), ring.all_unmasked());
        barrier_wait(barriers.dout_full(dout_stage.index), dout_stage.parity);
        multiply_gradients();
        accumulate(dv, weights, Tiles::dout_at + dout_stage.index * Tiles::dout_bytes);
        wgmma_wait<1>(gradients);
        differentiate(ring, keys);
        wgmma_wait<0>(dv);
        pin_all(weights);
        arrive(barriers.dout_empty(dout_stage.index));
        dout_stage.next();
        accumulate(dk, factors, Tiles::q_at + q_stage.index * Tiles::q_bytes);
        send_factors();
        const uint32 q_empty = barriers.q_empty(q_stage.index);
        q_stage.next();
        if constexpr (config.ahead) {
          // After the last tile a product that nobody reads: a branch around it would serialize all products.
          if (left > 0) barrier_wait(barriers.q_full(q_stage.index), q_stage.parity);
          multiply_queries();
          wgmma_wait<1>(dk);
        } else {
          wgmma_wait<0>(dk);
        }
        pin_all(factors);
        arrive(q_empty);
        if constexpr (config.ahead) wgmma_wait<0>(scores);
        ring.next();
      }
      if constexpr (config.slopes) finish_head(keys);
    }
    return count > 0;
  }
  __device__ __forceinline__ void run() {
    const uint32 ticket = shared + Tiles::ticket_at;
    sum(ticket);
    const AttentionParams& attention = params.backward.attention;
    // Other warpgroups do not read these rows of V.
    const WgmmaKeys written = keys_of(here(block_number<config>(ticket)));
    const int rank = config.head_split > 0 ? cluster_rank() : 0;
    if constexpr (config.head_split > 0) HeadSplit<shape, config>{rank, group * 128 + warp * 32 + lane}.combine(dk, dv);
    if (config.head_split == 0 || rank == 0)
      write<shape.head_dim_v>(dv, DroppedPairs::factor_of(&params.backward.dropout), Tiles::v_at, params.dv, written);
    await_readers();
    if (config.head_split == 0 || rank == 1) write<shape.head_dim>(dk, attention.scale, Tiles::dk_at, params.dk, written);
    finish_writes();
  }

  /// Computes S, P and dV; another warpgroup computes dK.
  __device__ __forceinline__ void run_values() {
    const uint32 ticket = shared + Tiles::ticket_at;
    const WgmmaKeys keys = keys_of(block_number<config>(ticket));
    const AttentionParams& attention = params.backward.attention;
    const Sequence sequence = sequence_of<shape>(attention, keys.batch);
    Ring ring(attention, Visibility<shape>(attention, sequence), keys, keys.first_k + 64 * rows());
#pragma unroll
    for (int i = 0; i < shape.head_dim_v / 2; ++i) dv[i] = 0.0f;
    if (const int count = ring.count(); count > 0) {
      barrier_wait(barriers.k_full(), 0);
      barrier_wait(barriers.q_full(0), 0);
      multiply_queries();
      wgmma_wait<0>(scores);
#pragma unroll 1
      for (int left = count - 1; left >= 0; --left) {
        exponentiate(Pairs<shape, Modification>(attention, sequence, keys.batch, ring.head()), dropped_pairs(ring, keys),
                     ring.first_q(), keys.first_k, ring.all_unmasked());
        arrive(barriers.q_empty(q_stage.index));
        q_stage.next();
        barrier_wait(barriers.dout_full(dout_stage.index), dout_stage.parity);
        accumulate(dv, weights, Tiles::dout_at + dout_stage.index * Tiles::dout_bytes);
        send_weights();
        // After the last tile a product that nobody reads: a branch around it would serialize all products.
        if (left > 0) barrier_wait(barriers.q_full(q_stage.index), q_stage.parity);
        multiply_queries();
        wgmma_wait<1>(dv);
        pin_all(weights);
        arrive(barriers.dout_empty(dout_stage.index));
        dout_stage.next();
        wgmma_wait<0>(scores);
        ring.next();
      }
    }
    await_readers();
    write<shape.head_dim_v>(dv, DroppedPairs::factor_of(&params.backward.dropout), Tiles::v_at, params.dv,
                            keys_of(here(block_number<config>(ticket))));
    finish_writes();
  }
  /// Computes dP, dS and dK.
  __device__ __forceinline__ void run_keys() {
    const uint32 ticket = shared + Tiles::ticket_at;
    const WgmmaKeys keys = keys_of(block_number<config>(ticket));
    const AttentionParams& attention = params.backward.attention;
    Ring ring(attention, Visibility<shape>(attention, sequence_of<shape>(attention, keys.batch)), keys, keys.first_k);
#pragma unroll
    for (int i = 0; i < shape.head_dim / 2; ++i) dk[i] = 0.0f;
    if (const int count = ring.count(); count > 0) {
      barrier_wait(barriers.v_full(), 0);
      barrier_wait(barriers.dout_full(0), 0);
      multiply_gradients();
      wgmma_wait<0>(gradients);
#pragma unroll 1
      for (int left = count - 1; left >= 0; --left) {
        receive_weights();
        differentiate(ring, keys);
        arrive(barriers.dout_empty(dout_stage.index));
        dout_stage.next();
        barrier_wait(barriers.q_full(q_stage.index), q_stage.parity);
        accumulate(dk, factors, Tiles::q_at + q_stage.index * Tiles::q_bytes);
        send_factors();
        if (left > 0) barrier_wait(barriers.dout_full(dout_stage.index), dout_stage.parity);
        multiply_gradients();
        wgmma_wait<1>(dk);
        pin_all(factors);
        arrive(barriers.q_empty(q_stage.index));
        q_stage.next();
        wgmma_wait<0>(gradients);
        ring.next();
      }
      if constexpr (config.slopes) finish_head(keys);
    }
    await_readers();
    write<shape.head_dim>(dk, attention.scale, Tiles::k_at, params.dk, keys_of(here(block_number<config>(ticket))));
    finish_writes();
  }
};

}  // namespace tunesmith

#endif
