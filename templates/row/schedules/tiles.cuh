// Rows that do not fit on chip: a block iterates over a row, or its slice of it, tile by tile.
#pragma once

#include "row/row.cuh"

namespace tunesmith {

struct TiledConfig {
  int threads;
  int unroll;           ///< vectors that a thread loads before it uses the first one
  int blocks_per_row;   ///< 1: one block per row; otherwise a first kernel writes partial sums for a second one
  LoadHint load;        ///< first pass
  LoadHint load_again;  ///< second pass
  StoreHint store;
};

/// Elements that a block processes per iteration.
template <const RowShape& shape, const TiledConfig& config>
constexpr int64 tile_elements = int64{config.threads} * config.unroll* shape.vector;

/// Returns the elements of one block's slice of a row of `cols` columns: a multiple of a tile.
template <const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ constexpr int64 part_elements(int64 cols) {
  constexpr int64 tile = tile_elements<shape, config>;
  const int64 span = cols + (shape.shifted ? shape.line - 1 : 0);
  return ((span + tile - 1) / tile + config.blocks_per_row - 1) / config.blocks_per_row * tile;
}

/// Calls body(row, slice) for the work of this block. With one block per row, a block processes several rows: a small grid
/// keeps the active rows in L2 for the second pass.
template <const RowShape& shape, const TiledConfig& config, typename Body>
__device__ __forceinline__ void over_parts(const RowParams& params, const Body& body) {
  if constexpr (config.blocks_per_row == 1) {
    for (int64 row = block_index(); row < params.rows; row += params.groups) body(row, 0);
  } else {
    const int64 row = block_index() / config.blocks_per_row;
    if (row < params.rows) body(row, static_cast<int>(block_index() % config.blocks_per_row));
  }
}

/// Calls step(inside, begin) for every tile of a slice of a row of `cols` columns that starts before `end`. `inside` is true
/// if the tile lies within every row, whatever the shift; it is a constant after inlining.
template <const RowShape& shape, const TiledConfig& config, bool may_be_inside, typename Step>
__device__ __forceinline__ void over_tiles(int64 cols, int part, int64 end, const Step& step) {
  constexpr int64 tile = tile_elements<shape, config>;
  const int64 length = part_elements<shape, config>(cols);
  int64 begin = config.blocks_per_row == 1 ? 0 : part * length;
  const int64 part_end = config.blocks_per_row == 1 ? row_span<shape> : begin + length;
  end = end < part_end ? end : part_end;
  if constexpr (may_be_inside) {
    if constexpr (shape.shifted) {
      if (begin == 0) {
        step(false, begin);
        begin += tile;
      }
    }
    const int64 inside_end = end < cols ? end : cols;
    for (; begin + tile <= inside_end; begin += tile) step(true, begin);
  }
  for (; begin < end; begin += tile) step(false, begin);
}

/// Loads a tile: `unroll` vectors per thread, all in flight at once.
template <typename Element, const RowShape& shape, const TiledConfig& config, LoadHint hint>
__device__ __forceinline__ void load_tile(const Element* row, int64 begin, Range seen, bool inside, Compute<Element> outside,
                                          Packed<Element, shape.vector> (&tile)[config.unroll]) {
#pragma unroll
  for (int i = 0; i < config.unroll; ++i)
    tile[i] = RowFeatures<shape>::SeenEdges::template load<Element, shape.vector, hint>(
        row, begin + (i * config.threads + thread_index()) * shape.vector, seen, inside, outside);
}

}  // namespace tunesmith
