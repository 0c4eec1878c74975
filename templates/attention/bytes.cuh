// The two products of a warp with e4m3 keys and values and 16-bit queries, on sm_89 and later. Bytes become 16-bit operands
// in registers, between ldmatrix and mma.sync, so shared memory holds and moves one byte an element. All conversions are
// exact.
//
//   K: ldmatrix gives lane 4g + t the elements 4t to 4t + 3 of key g, and the product needs elements of its own for k 2t,
//   2t + 1 and 2t + 8, 2t + 9. A dot product may have its terms in any order, so the queries are loaded in the same one.
//   V: a transposed load gives the columns 2g, 2g + 1 of keys 2t, 2t + 1. Even and odd columns make two operands, and a lane
//   has four contiguous outputs at the end.
//
// The product with V rounds weights to f16, which holds all e4m3 numbers, whatever the type of the queries; with a scale for
// each row, which may exceed f16, to bf16.
#pragma once

#include "attention/fragments.cuh"
#include "device/float8.cuh"

namespace tunesmith {

/// Loads A operands of 16 queries and 16 elements, in the order of ByteProducts: elements 4t and 4t + 1 have the places of
/// k 2t and 2t + 1, elements 4t + 2 and 4t + 3 those of k 2t + 8 and 2t + 9.
template <int width>
struct ByteQueryRows {
  const int lane;

  __device__ __forceinline__ explicit ByteQueryRows(int warp_lane) : lane(warp_lane) {}
  __device__ __forceinline__ void load(uint32 (&a)[4], const unsigned char* shared, int tile_at, int block, int step) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int place = swizzled<2 * width>(lane / 4 + 8 * r, 2 * step + lane % 4 / 2) + lane % 2 * 8;
      const auto four = *reinterpret_cast<const Bits<8>*>(shared + tile_at + block * 32 * width + place);
      a[r] = four.word[0];
      a[r + 2] = four.word[1];
    }
  }
};

/// Returns the offset of the 16 bytes that this lane passes to ldmatrix, of 32 rows `group`, in a swizzled tile of rows of
/// `width` bytes.
template <int width>
__device__ __forceinline__ int byte_chunk_at(int group, int chunk, int lane) {
  return group * 32 * width + swizzled<width>(lane, chunk);
}

/// See WarpProducts.
template <typename Element, const AttentionShape& shape, int blocks, int keys>
struct ByteProducts {
  static_assert(shape.head_dim % 16 == 0 && shape.head_dim_v % 16 == 0 && keys % 32 == 0, "loads are 32 rows of 16 bytes");
  using Weight = typename If<shape.rows_scaled, bf16, f16>::type;
  template <bool in_registers>
  using Queries = WarpQueries<shape, blocks, in_registers, ByteQueryRows<shape.head_dim>>;

  const int warp_lane;
  float scores[blocks][keys / 2];
  float output[blocks][shape.head_dim_v / 2];

  __device__ __forceinline__ explicit ByteProducts(int lane) : warp_lane(lane) { clear_sums(output); }

  template <bool in_registers>
  __device__ __forceinline__ void multiply_keys(Queries<in_registers>& queries, const unsigned char* shared, int tile_at) {
    clear_sums(scores);
#pragma unroll
    for (int step = 0; step < queries.steps; ++step) {
      const Fragments<blocks>& a = queries.at(step);
#pragma unroll
      for (int group = 0; group < keys / 32; ++group) {
        uint32 bytes[4];
        load_matrix_x4(bytes, shared, tile_at + byte_chunk_at<shape.head_dim>(group, step, warp_lane));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          uint32 b[2];
          widen_e4m3<Element>(bytes[i], b);
#pragma unroll
          for (int block = 0; block < blocks; ++block)
            accumulate_tile<Element>(scores[block], 4 * group + i, a[block], b[0], b[1]);
        }
      }
    }
  }

  __device__ __forceinline__ void multiply_values(const unsigned char* shared, int tile_at) {
#pragma unroll
    for (int group = 0; group < keys / 32; ++group) {
      Fragments<blocks> a[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int block = 0; block < blocks; ++block) round_weights<Weight>(scores[block], 2 * group + half, a[half][block]);
#pragma unroll
      for (int chunk = 0; chunk < shape.head_dim_v / 16; ++chunk) {
        uint32 bytes[4];
        load_matrix_x4_transposed(bytes, shared, tile_at + byte_chunk_at<shape.head_dim_v>(group, chunk, warp_lane));
        // Of each 8 keys: the operands of even and of odd columns.
        uint32 b[4][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) widen_e4m3<Weight>(with_inner_bytes_swapped(bytes[i]), b[i]);
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int odd = 0; odd < 2; ++odd)
#pragma unroll
            for (int block = 0; block < blocks; ++block)
              accumulate_tile<Weight>(output[block], 2 * chunk + odd, a[half][block], b[2 * half][odd],
                                      b[2 * half + 1][odd]);
      }
    }
  }

  /// Multiplies all scores by K's scale.
  __device__ __forceinline__ void scale_scores(float scale) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) scores[block][i] = multiply(scores[block][i], scale);
  }
  /// Multiplies the scores, or weights, of each key by its scale, which follows a tile of rows of `width` bytes.
  template <int width>
  __device__ __forceinline__ void scale_columns(const unsigned char* of_tile) {
#pragma unroll
    for (int tile = 0; tile < keys / 8; ++tile) {
      const auto pair = *reinterpret_cast<const Bits<8>*>(of_tile + keys * width + (8 * tile + warp_lane % 4 * 2) * 4);
#pragma unroll
      for (int block = 0; block < blocks; ++block)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          scores[block][4 * tile + i] = multiply(scores[block][4 * tile + i], float_of(pair.word[i % 2]));
    }
  }

  static constexpr int columns = 4, groups = shape.head_dim_v / 16;
  static __device__ __forceinline__ int column_of(int group, int lane) { return 16 * group + lane % 4 * 4; }
  __device__ __forceinline__ void output_of(int block, int r, int group, float factor, float (&values)[columns]) const {
#pragma unroll
    for (int i = 0; i < columns; ++i) values[i] = multiply(output[block][4 * (2 * group + i % 2) + 2 * r + i / 2], factor);
  }
  __device__ __forceinline__ void show(int block, int r, int group, float factor, int lane, float* rows, int row_at) const {
    float values[columns];
    output_of(block, r, group, factor, values);
    *reinterpret_cast<Bits<16>*>(rows + row_at + column_of(group, lane)) = {
        {bits_of(values[0]), bits_of(values[1]), bits_of(values[2]), bits_of(values[3])}};
  }
  static __device__ __forceinline__ void stage(unsigned char* tile, int row, int group, int lane,
                                               const float (&values)[columns]) {
    *reinterpret_cast<Bits<8>*>(tile + swizzled<2 * shape.head_dim_v>(row, 2 * group + lane % 4 / 2) +
                                lane % 2 * 8) = {{pack<Element>(values[0], values[1]), pack<Element>(values[2], values[3])}};
  }
};

}  // namespace tunesmith
