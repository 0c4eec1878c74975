// Tensor-core tiles of one warp on sm_80 and later: copies rows to shared memory, loads them with ldmatrix, and computes the
// two products of attention, S = Q K^T and O += P V, for 16 or more rows.
#pragma once

#include "attention/quads.cuh"
#include "attention/rows.cuh"
#include "device/matrix.cuh"

namespace tunesmith {

/// Copies 16 bytes of a row to shared memory in one asynchronous copy; zeros if not `there`. All rows must be 16-byte
/// aligned; see attention/unaligned.cuh otherwise.
struct AlignedChunks {
  template <typename Element, int vector>
  static __device__ __forceinline__ void copy(unsigned char* shared, int at, const Element* source, bool there) {
    async_copy_16(shared, at, source, there);
  }
};

/// Copies rows [first, first + rows) of `source`, `width` elements each (whole chunks of 16 bytes), to a swizzled tile
/// `tile_at` bytes from `shared`; rows from `end` on become zeros. `threads` threads call it. Complete after async_copy_wait
/// and a barrier of them.
template <typename Chunks, int threads, int rows, int width, int vector, typename Rows>
__device__ __forceinline__ void copy_rows(const Rows& source, int first, int end, unsigned char* shared, int tile_at,
                                          int thread) {
  using Element = typename Rows::Element;
  constexpr int size = static_cast<int>(sizeof(Element)), in_chunk = 16 / size;
  constexpr int per_row = width / in_chunk, chunks = rows * per_row, iterations = (chunks + threads - 1) / threads;
  // If each thread stays in its column, an address follows from the one before.
  constexpr bool straight = threads % per_row == 0;
  const auto tile = source.template tile<rows>(first, end);
  const auto steps = tile.template steps<(straight ? iterations : 1), threads / per_row>(first + thread / per_row, end);
  const Element* address = steps.first() + thread % per_row * in_chunk;
#pragma unroll(iterations <= 16 ? iterations : 8)
  for (int i = 0; i < iterations; ++i) {
    const int number = thread + i * threads, row = number / per_row, chunk = number % per_row;
    if constexpr (!straight) address = tile.start + tile.offset(first + row, end) + chunk * in_chunk;
    if (chunks % threads == 0 || number < chunks) {
      const int place = tile_at + swizzled<size * width>(row, chunk);
      const bool there = first + row < end;
      Chunks::template copy<Element, vector>(shared, place, address, there);
    }
    if constexpr (straight) address += steps.after(i);
  }
}

/// Offsets of the rows that this lane passes to ldmatrix, in a swizzled tile of rows of `width` elements: `row` of 16, and
/// the first or second `half` of 16 elements. A second half beyond the end of a row is replaced by the first.
template <int width>
struct MatrixRows {
  static constexpr int chunks = width / 8, row_bytes = 2 * width;
  // The swizzle repeats after 8 rows, and after 64 elements.
  static constexpr int count = chunks < 8 ? (chunks + 1) / 2 : 4;
  int places[count], last;

  __device__ __forceinline__ MatrixRows(int row, int half) : last(swizzled<row_bytes>(row, chunks - 1)) {
#pragma unroll
    for (int i = 0; i < count; ++i) places[i] = swizzled<row_bytes>(row, 2 * i + half);
  }
  static __device__ __forceinline__ constexpr bool is_half(int step) { return 2 * step + 1 == chunks; }
  /// Returns the offset in the 16 rows `block`, from element 16 `step` on.
  __device__ __forceinline__ int at(int block, int step) const {
    return block * 16 * row_bytes + (is_half(step) ? last : places[step % 4] + step / 4 * 128);
  }
};

template <int blocks, int count>
__device__ __forceinline__ void clear_sums(float (&sums)[blocks][count]) {
#pragma unroll
  for (int block = 0; block < blocks; ++block)
#pragma unroll
    for (int i = 0; i < count; ++i) sums[block][i] = 0.0f;
}

/// sums += a * b in columns 8 `tile` to 8 `tile` + 7.
template <typename Element, int count>
__device__ __forceinline__ void accumulate_tile(float (&sums)[count], int tile, const uint32 (&a)[4], uint32 b0, uint32 b1) {
  float d[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = sums[4 * tile + i];
  const uint32 b[2] = {b0, b1};
  multiply_accumulate_16x8x16<Element>(d, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[4 * tile + i] = d[i];
}

/// A operand of 16 columns, for `blocks` times 16 rows.
template <int blocks>
using Fragments = uint32[blocks][4];

/// Loads A operands of 16 queries and 16 elements.
template <int width>
struct QueryRows {
  const MatrixRows<width> rows;

  __device__ __forceinline__ explicit QueryRows(int lane) : rows(lane % 16, lane / 16) {}
  __device__ __forceinline__ void load(uint32 (&a)[4], const unsigned char* shared, int tile_at, int block, int step) const {
    load_matrix_x4(a, shared, tile_at + rows.at(block, step));
    if (rows.is_half(step)) a[2] = a[3] = 0;
  }
};

/// `blocks` times 16 queries of a warp in a swizzled tile `tile_at` bytes from `shared`: kept in registers, or loaded for
/// every product. `Rows`: QueryRows, or what has its functions.
template <const AttentionShape& shape, int blocks, bool in_registers, typename Rows = QueryRows<shape.head_dim>>
struct WarpQueries {
  static constexpr int steps = (shape.head_dim + 15) / 16, kept_steps = in_registers ? steps : 1;

  const unsigned char* const shared;
  const int tile_at;
  const Rows rows;
  Fragments<blocks> kept[kept_steps];

  __device__ __forceinline__ WarpQueries(const unsigned char* memory, int at, int lane)
      : shared(memory), tile_at(at), rows(lane) {}

  __device__ __forceinline__ void fetch(int step, Fragments<blocks>& a) const {
#pragma unroll
    for (int block = 0; block < blocks; ++block) rows.load(a[block], shared, tile_at, block, step);
  }
  /// Loads the queries into registers. Call it when the tile has arrived.
  __device__ __forceinline__ void hold() {
    if constexpr (in_registers)
#pragma unroll
      for (int step = 0; step < kept_steps; ++step) fetch(step, kept[step]);
  }
  /// Returns the fragments from element 16 `step` on.
  __device__ __forceinline__ const Fragments<blocks>& at(int step) {
    if constexpr (!in_registers) fetch(step, kept[0]);
    return kept[in_registers ? step : 0];
  }
};

/// The two products of a warp: `blocks` times 16 rows of queries with `keys` keys.
template <typename Element, const AttentionShape& shape, int blocks, int keys>
struct WarpProducts {
  using Weight = Element;  ///< of the A operand of the product with V
  template <bool in_registers>
  using Queries = WarpQueries<shape, blocks, in_registers>;
  static constexpr int v_pairs = (shape.head_dim_v + 15) / 16;

  const MatrixRows<shape.head_dim> k_rows;
  const MatrixRows<shape.head_dim_v> v_rows;
  float scores[blocks][keys / 2];
  float output[blocks][shape.head_dim_v / 2];

  __device__ __forceinline__ explicit WarpProducts(int lane)
      : k_rows(lane / 16 * 8 + lane % 8, lane / 8 % 2), v_rows(lane % 16, lane / 16) {
    clear_sums(output);
  }

  /// S = Q K^T of the keys `tile_at` bytes from `shared`.
  template <bool in_registers>
  __device__ __forceinline__ void multiply_keys(Queries<in_registers>& queries, const unsigned char* shared, int tile_at) {
    clear_sums(scores);
#pragma unroll
    for (int step = 0; step < queries.steps; ++step) {
      const Fragments<blocks>& a = queries.at(step);
#pragma unroll
      for (int pair = 0; pair < keys / 16; ++pair) {
        uint32 b[4];
        load_matrix_x4(b, shared, tile_at + k_rows.at(pair, step));
        if (k_rows.is_half(step)) b[1] = b[3] = 0;
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
          accumulate_tile<Element>(scores[block], 2 * pair, a[block], b[0], b[1]);
          accumulate_tile<Element>(scores[block], 2 * pair + 1, a[block], b[2], b[3]);
        }
      }
    }
  }

  /// O += P V; the scores have become weights, and V is `tile_at` bytes from `shared`.
  __device__ __forceinline__ void multiply_values(const unsigned char* shared, int tile_at) {
#pragma unroll
    for (int step = 0; step < keys / 16; ++step) {
      Fragments<blocks> a;
#pragma unroll
      for (int block = 0; block < blocks; ++block) round_weights<Element>(scores[block], step, a[block]);
#pragma unroll
      for (int pair = 0; pair < v_pairs; ++pair) {
        uint32 b[4];
        load_matrix_x4_transposed(b, shared, tile_at + v_rows.at(step, pair));
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
          accumulate_tile<Element>(output[block], 2 * pair, a[block], b[0], b[1]);
          if (!v_rows.is_half(pair)) accumulate_tile<Element>(output[block], 2 * pair + 1, a[block], b[2], b[3]);
        }
      }
    }
  }

  // A lane has `columns` contiguous outputs of a row in each of `groups` groups.
  static constexpr int columns = 2, groups = shape.head_dim_v / 8;
  static __device__ __forceinline__ int column_of(int group, int lane) { return 8 * group + lane % 4 * 2; }
  /// Returns outputs of row 8 `r` + lane / 4 times `factor`.
  __device__ __forceinline__ void output_of(int block, int r, int group, float factor, float (&values)[columns]) const {
#pragma unroll
    for (int i = 0; i < columns; ++i) values[i] = multiply(output[block][4 * group + 2 * r + i], factor);
  }
  /// Writes them as float32 to the row `row_at` floats from `rows`.
  __device__ __forceinline__ void show(int block, int r, int group, float factor, int lane, float* rows, int row_at) const {
    const int at = row_at + column_of(group, lane);
    *reinterpret_cast<Bits<8>*>(rows + at) = {{bits_of(multiply(output[block][4 * group + 2 * r], factor)),
                                               bits_of(multiply(output[block][4 * group + 2 * r + 1], factor))}};
  }
  /// Rounds them and writes them to a swizzled tile.
  static __device__ __forceinline__ void stage(unsigned char* tile, int row, int group, int lane,
                                               const float (&values)[columns]) {
    *reinterpret_cast<uint32*>(tile + swizzled<2 * shape.head_dim_v>(row, group) + lane % 4 * 4) =
        pack<Element>(values[0], values[1]);
  }
};

template <typename Element, const AttentionShape& shape, int blocks, int keys>
using ProductsOf = typename AttentionFeatures<shape>::template Products<Element, blocks, keys>;

}  // namespace tunesmith
