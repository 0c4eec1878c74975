// Compile-time properties of attention kernels.
#pragma once

#include "attention/params.cuh"

namespace tunesmith {

/// Causal mask alignment; also applies to windows and ALiBi distances.
enum class Diagonal {
  top_left,      ///< query i and key i have the same position
  bottom_right,  ///< the last query and the last key have the same position
};

struct AttentionShape {
  int head_dim, head_dim_v;
  int q_vector, k_vector, v_vector, o_vector;  ///< elements per access; all rows start at a multiple of them
  Diagonal diagonal;
  bool bounded_left,
      bounded_right;  ///< keys too far before, or after, a query's position are masked; causal masks bound the right
  bool softcap, alibi, sinks;
  bool varlen;       ///< sequences are packed
  bool kv_lengths;   ///< lengths of keys are in device memory; then varlen packs queries alone
  int page_size;     ///< keys and values of a page; 0: they are not in pages
  bool e4m3;         ///< keys and values are e4m3, not of the queries' type
  bool scaled;       ///< they have a scale for all rows of a sequence and key head
  bool rows_scaled;  ///< or a scale for each row
  bool dropout;
  int split_keys;  ///< keys of a split in decoding; 0: splits of equal sizes
  bool score_mod, mask_mod;
};

/// Compile-time choices of the generated source, so that it contains only the code of enabled options:
///   Lengths                    FixedLengths, PackedLengths or DeviceLengths: where a sequence starts and how long it is
///   Argument                   of the kernel, if lengths of keys or scales are in device memory
///   KeyValues<Element>         ContiguousKeyValues or PagedKeyValues: rows of K and V, for kernels whose threads copy them
///   KeyBoxes<tile_kv>          ContiguousBoxes or PagedBoxes: boxes of K and V, for wgmma kernels
///   Tiles<max_q, tile_kv>     KeyTiles, or MaskedKeyTiles with a mask_mod
///   Ring<tile_q, ...>          QueryRing, or MaskedQueryRing with a mask_mod, for backward kernels on wgmma
///   Cap, CapSteps, Bias, BiasSteps, Sink  SoftCap, SoftCapSteps, Alibi, AlibiSteps and Sinks, if the shape has them
///   Chunks                     AlignedChunks or UnalignedChunks, for kernels on mma.sync
///   Products<Element, ...>     WarpProducts, or ByteProducts with e4m3 keys, for forward kernels on mma.sync
///   Scales                     NoScales, HeadScales or RowScales, for kernels whose threads copy K and V
///   Dropped                    DroppedPairs, with dropout
template <const AttentionShape& shape>
struct AttentionFeatures;

/// Bytes of a row of `width` keys' or values' elements in kernels on tensor cores, with the row's scale.
template <const AttentionShape& shape>
__device__ constexpr int key_row_bytes(int width) {
  return shape.e4m3 ? width + (shape.rows_scaled ? 4 : 0) : 2 * width;
}

}  // namespace tunesmith
