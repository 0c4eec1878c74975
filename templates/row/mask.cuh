// Masks that are broadcast over the rows, and their effect on the elements of a vector.
#pragma once

#include "device/edges.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Loads bytes [column, column + count) one at a time; bytes outside the range are 0.
template <int count>
__device__ __forceinline__ Packed<u8, count> load_bytes(const u8* row, int64 column, Range range) {
  Packed<u8, count> vector;
  if constexpr (count < 4) {
    uint32 word = 0;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (range.holds<1>(column + i)) word |= uint32{load<1, LoadHint::plain>(row + column + i).word} << (8 * i);
    vector.access[0].word = static_cast<decltype(vector.access[0].word)>(word);
  } else {
#pragma unroll
    for (int j = 0; j < count / 4; ++j) {
      uint32 word = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (range.holds<1>(column + 4 * j + i))
          word |= uint32{load<1, LoadHint::plain>(row + column + 4 * j + i).word} << (8 * i);
      vector.access[0].word[j] = word;
    }
  }
  return vector;
}

/// Returns the address of the row's mask.
template <typename Element, const RowShape& shape>
__device__ __forceinline__ const Element* mask_of_row(const RowParams& params, const Row<shape>& row) {
  const int64 inner = row.index % params.mask_inner;
  const int64 rest = row.index / params.mask_inner;
  const int64 middle = rest % params.mask_middle;
  const int64 outer = rest / params.mask_middle;
  return static_cast<const Element*>(params.mask) + outer * params.mask_outer_stride + middle * params.mask_middle_stride +
         inner * params.mask_inner_stride - row.shift;
}

/// Loads the mask elements of one vector; excluded elements read as 0.
template <typename Element, const RowShape& shape>
__device__ __forceinline__ void load_mask(const RowParams& params, const Row<shape>& row, int64 column, bool inside,
                                          Compute<Element> (&values)[shape.vector]) {
  constexpr int count = shape.mask_vector;
  const Element* const mask = mask_of_row<Element>(params, row);
#pragma unroll
  for (int begin = 0; begin < shape.vector; begin += count) {
    Packed<Element, count> vector;
    if constexpr (sizeof(Element) == 1) {
      if (inside || row.seen.template holds<count>(column + begin))
        vector = load_whole<Element, count, LoadHint::plain>(mask, column + begin);
      else
        vector = load_bytes<count>(mask, column + begin, row.seen);
    } else {
      vector = BranchedEdges::load<Element, count, LoadHint::plain>(mask, column + begin, row.seen, inside, 0.0f);
    }
    Compute<Element> part[count];
    vector.unpack(part);
#pragma unroll
    for (int j = 0; j < count; ++j) values[begin + j] = part[j];
  }
}

/// Additive mask of float, f16, bf16 or double: added to the scaled elements.
template <typename Element>
struct AddMask {
  static constexpr bool present = true, adds = true;
  template <const RowShape& shape>
  static __device__ __forceinline__ void apply(const RowParams& params, const Row<shape>& row, int64 column, bool inside,
                                               Number<shape>, Number<shape> (&values)[shape.vector]) {
    Compute<Element> mask[shape.vector];
    load_mask<Element, shape>(params, row, column, inside, mask);
    const Number<shape> scale = scale_of<Number<shape>>(params);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const Number<shape> added = mask[j];
      values[j] = shape.scaled ? fused_multiply_add(values[j], scale, added) : add(values[j], added);
    }
  }
};

/// Boolean mask of uint8: where it is 0, elements are replaced by `masked_out`.
struct KeepMask {
  static constexpr bool present = true, adds = false;
  template <const RowShape& shape>
  static __device__ __forceinline__ void apply(const RowParams& params, const Row<shape>& row, int64 column, bool inside,
                                               Number<shape> masked_out, Number<shape> (&values)[shape.vector]) {
    float mask[shape.vector];
    load_mask<u8, shape>(params, row, column, inside, mask);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = mask[j] != 0.0f ? values[j] : masked_out;
  }
};

}  // namespace tunesmith
