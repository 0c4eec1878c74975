// Append to a KV cache, with normalization and rotation of queries and keys before it. Bound by memory, or by latency if
// there are few tokens: one launch does everything, and a row (a head of q, k or v of one token) is read and written once.
//
//   A group of `lanes` neighbouring lanes has one row in registers. A lane has units of two vectors; the elements that
//   rotate together are in one unit, so that only the sum of squares crosses lanes.
//   Rows of a token follow each other: queries, keys, values. All lanes of a warp run the same code, whatever their rows
//   are.
#pragma once

#include "device/reciprocal_sqrt.cuh"
#include "device/reduce.cuh"
#include "device/vector.cuh"
#include "kv_append/params.cuh"

namespace tunesmith {

enum class Rope {
  none,
  neox,   ///< pairs of elements i and i + rotary_dim / 2
  gpt_j,  ///< pairs of elements 2 i and 2 i + 1
};
enum class KvScales { none, tensor, head };

struct KvAppendShape {
  int head_dim, head_dim_v;
  int vector;  ///< elements per access; all rows start at a multiple of them, and so does each half of a unit
  int page_size;
  Rope rope;
  int rotary_dim;
  bool qk_norm;
  KvScales scales;
};

struct KvAppendConfig {
  int threads;
};

/// The units of a row.
template <const KvAppendShape& shape>
struct RowUnits {
  static constexpr int widest = shape.head_dim > shape.head_dim_v ? shape.head_dim : shape.head_dim_v;
  static constexpr int in_row = (widest + 2 * shape.vector - 1) / (2 * shape.vector);
  /// The fewest lanes, a power of two, that have a unit each.
  static constexpr int lanes = in_row > 16 ? 32 : in_row > 8 ? 16 : in_row > 4 ? 8 : in_row > 2 ? 4 : in_row;
  static constexpr int of_lane = (in_row + lanes - 1) / lanes;
  static constexpr int rotated = shape.rope == Rope::none ? 0 : shape.rotary_dim / (2 * shape.vector);

  /// Returns the first element of a half of a unit. With neox, halves of rotated units are rotary_dim / 2 apart.
  static __device__ __forceinline__ int first(int unit, int half, bool rotates) {
    if (shape.rope == Rope::neox && rotates && unit < rotated) return unit * shape.vector + half * (shape.rotary_dim / 2);
    return (2 * unit + half) * shape.vector;
  }
};

/// Rotates the pairs of a unit.
template <Rope rope, int vector>
__device__ __forceinline__ void rotate(float (&values)[2][vector], const float (&cosine)[vector],
                                       const float (&sine)[vector]) {
#pragma unroll
  for (int i = 0; i < vector; ++i) {
    float& a = rope == Rope::neox ? values[0][i] : values[2 * i / vector][2 * i % vector];
    float& b = rope == Rope::neox ? values[1][i] : values[(2 * i + 1) / vector][(2 * i + 1) % vector];
    const float turned = subtract(multiply(a, cosine[i]), multiply(b, sine[i]));
    b = add(multiply(b, cosine[i]), multiply(a, sine[i]));
    a = turned;
  }
}

template <typename Element, typename Cached, typename Angle, typename Weight, const KvAppendShape& shape,
          const KvAppendConfig& config>
__device__ __forceinline__ void kv_append(const KvAppendParams& params) {
  using Units = RowUnits<shape>;
  constexpr int vector = shape.vector;
  const int64 index = block_index() * (config.threads / Units::lanes) + thread_index() / Units::lanes;
  const int lane = thread_index() % Units::lanes;
  const bool exists = index < params.rows;
  const int64 row = exists ? index : 0;
  const int per_token = params.heads + 2 * params.kv_heads;
  const int64 token = row / per_token;
  const int place = static_cast<int>(row - token * per_token);
  const bool is_q = place < params.heads, is_v = place >= params.heads + params.kv_heads;
  const int head = is_q ? place : is_v ? place - params.heads - params.kv_heads : place - params.heads;
  const int width = is_v ? shape.head_dim_v : shape.head_dim;
  const int64 slot = is_q ? 0 : params.slot_mapping[token];
  const auto* const from = static_cast<const Element*>(is_q   ? params.q
                                                       : is_v ? params.v
                                                              : params.k) +
                           token * (is_q   ? params.q_stride
                                    : is_v ? params.v_stride
                                           : params.k_stride) +
                           head * width;

  float values[Units::of_lane][2][vector];
#pragma unroll
  for (int i = 0; i < Units::of_lane; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = Units::first(i * Units::lanes + lane, half, !is_v);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[i][half][j] = 0.0f;
      if (column < width) load_whole<Element, vector, LoadHint::plain>(from, column).unpack(values[i][half]);
    }
  }

  if constexpr (shape.qk_norm) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < Units::of_lane; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < vector; ++j) squares = add(squares, multiply(values[i][half][j], values[i][half][j]));
    squares = reduce_lanes<Units::lanes>(squares, Sum());
    const float factor = reciprocal_sqrt(add(divide(squares, static_cast<float>(shape.head_dim)), params.eps));
    const auto* const weights = static_cast<const Weight*>(is_q ? params.q_weight : params.k_weight);
#pragma unroll
    for (int i = 0; i < Units::of_lane; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = Units::first(i * Units::lanes + lane, half, true);
        if (is_v || column >= shape.head_dim) continue;
        float weight[vector];
        load_whole<Weight, vector, LoadHint::plain>(weights, column).unpack(weight);
#pragma unroll
        for (int j = 0; j < vector; ++j)
          values[i][half][j] = multiply(multiply(values[i][half][j], factor), add(weight[j], params.weight_offset));
      }
    }
  }

  if constexpr (shape.rope != Rope::none) {
    if (!is_v) {
      const auto* const angles = static_cast<const Angle*>(params.cos_sin) + params.positions[token] * shape.rotary_dim;
#pragma unroll
      for (int i = 0; i < Units::of_lane; ++i) {
        const int unit = i * Units::lanes + lane;
        if (unit >= Units::rotated) continue;
        float cosine[vector], sine[vector];
        load_whole<Angle, vector, LoadHint::plain>(angles, unit * vector).unpack(cosine);
        load_whole<Angle, vector, LoadHint::plain>(angles, shape.rotary_dim / 2 + unit * vector).unpack(sine);
        rotate<shape.rope>(values[i], cosine, sine);
      }
    }
  }

  if (!exists || slot < 0) return;
  if (is_q) {
    auto* const to = static_cast<Element*>(params.q_out) + token * params.q_out_stride + head * shape.head_dim;
#pragma unroll
    for (int i = 0; i < Units::of_lane; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (const int column = Units::first(i * Units::lanes + lane, half, true); column < width)
          store_whole<Element, vector, StoreHint::plain>(to, column, values[i][half]);
    return;
  }
  const KvCacheStrides& strides = is_v ? params.v_cache_strides : params.k_cache_strides;
  const int64 page = slot / shape.page_size;
  auto* const to = static_cast<Cached*>(is_v ? params.v_cache : params.k_cache) + page * strides.page +
                   (slot - page * shape.page_size) * strides.slot + head * strides.head;
  if constexpr (shape.scales != KvScales::none) {
    const float scale = (is_v ? params.v_scale : params.k_scale)[shape.scales == KvScales::head ? head : 0];
#pragma unroll
    for (int i = 0; i < Units::of_lane; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < vector; ++j) values[i][half][j] = divide(values[i][half][j], scale);
  }
#pragma unroll
  for (int i = 0; i < Units::of_lane; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (const int column = Units::first(i * Units::lanes + lane, half, !is_v); column < width)
        store_whole<Cached, vector, StoreHint::plain>(to, column, values[i][half]);
}

}  // namespace tunesmith
