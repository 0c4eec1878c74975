// Masks that are broadcast over the rows, and their effect on the elements of a vector.
#pragma once

#include "device/edges.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// True if a vector may cross the end of the contributing columns.
template <typename SeenEdges>
constexpr bool may_cross = true;
template <>
constexpr bool may_cross<WholeVectors> = false;
template <>
constexpr bool may_cross<GuardedVectors> = false;

/// The mask of a row.
template <typename Element, const RowShape& shape>
class MaskOfRow {
 public:
  __device__ __forceinline__ MaskOfRow(const RowParams& params, const Row<shape>& row)
      : first_(static_cast<const Element*>(params.mask) - row.shift), seen_(row.seen) {
    int64 inner = row.index;
    if (inner >= params.mask_inner) {  // a mask of one level needs no division
      const int64 rest = inner / params.mask_inner;
      const int64 outer = rest / params.mask_middle;
      inner -= rest * params.mask_inner;
      first_ += outer * params.mask_outer_stride + (rest - outer * params.mask_middle) * params.mask_middle_stride;
    }
    first_ += inner * params.mask_inner_stride;
  }

  /// Loads the elements of the vector at `column`; excluded elements read as 0. Without a branch if no vector crosses an
  /// end, so that the loads of other vectors overlap.
  __device__ __forceinline__ void load(int64 column, bool inside, Compute<Element> (&values)[shape.vector]) const {
#pragma unroll
    for (int begin = 0; begin < shape.vector; begin += count) {
      Compute<Element> part[count];
      const bool whole = inside || holds(column + begin);
      load_if_whole(column + begin, whole).unpack(part);
      if constexpr (count > 1 && may_cross<typename RowFeatures<shape>::SeenEdges>) {
        if (!whole && seen_.template meets<count>(column + begin)) {
#pragma unroll
          for (int j = 0; j < count; ++j)
            part[j] = seen_.template holds<1>(column + begin + j) ? load_element(first_ + column + begin + j) : 0.0f;
        }
      }
#pragma unroll
      for (int j = 0; j < count; ++j) values[begin + j] = part[j];
    }
  }

 private:
  static constexpr int count = shape.mask_vector;
  using Vector = Packed<Element, count>;

  __device__ __forceinline__ bool holds(int64 column) const {
    return shape.min_cols > 0 ? GuardedVectors::holds<count>(seen_, column) : seen_.template holds<count>(column);
  }
  /// Loads the vector at `column`, or zeros unless it is `whole`.
  __device__ __forceinline__ Vector load_if_whole(int64 column, bool whole) const {
    Vector vector{};
#pragma unroll
    for (int i = 0; i < Vector::accesses; ++i) {
      constexpr int bytes = Vector::access_bytes;
      if constexpr (leaves_early<shape>) {  // behind branches in any case
        if (whole) vector = load_whole<Element, count, LoadHint::plain>(first_, column);
      } else if constexpr (bytes == 1) {  // no predicated load: the byte of another column is ignored
        const auto byte = tunesmith::load<1, LoadHint::plain>(first_ + (whole ? column : seen_.begin));
        vector.access[i].word = whole ? byte.word : static_cast<unsigned char>(0);
      } else {
        const auto* address = reinterpret_cast<const char*>(first_ + column) + i * bytes;
        vector.access[i] = load_if<bytes, LoadHint::plain>(whole, address, vector.access[i]);
      }
    }
    return vector;
  }

  const Element* first_;  ///< of the row's mask, where columns count from
  Range seen_;
};

/// Additive mask of float, f16, bf16 or double: added to the scaled elements.
template <typename Element>
struct AddMask {
  static constexpr bool present = true, adds = true;
  template <const RowShape& shape>
  class Of {
   public:
    __device__ __forceinline__ Of(const RowParams& params, const Row<shape>& row)
        : mask_(params, row), scale_(scale_of<Number<shape>>(params)) {}
    __device__ __forceinline__ void apply(int64 column, bool inside, Number<shape>,
                                          Number<shape> (&values)[shape.vector]) const {
      Compute<Element> mask[shape.vector];
      mask_.load(column, inside, mask);
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) {
        const Number<shape> added = mask[j];
        values[j] = shape.scaled ? fused_multiply_add(values[j], scale_, added) : add(values[j], added);
      }
    }

   private:
    MaskOfRow<Element, shape> mask_;
    Number<shape> scale_;
  };
};

/// Boolean mask of uint8: where it is 0, elements are replaced by `masked_out`.
struct KeepMask {
  static constexpr bool present = true, adds = false;
  template <const RowShape& shape>
  class Of {
   public:
    __device__ __forceinline__ Of(const RowParams& params, const Row<shape>& row) : mask_(params, row) {}
    __device__ __forceinline__ void apply(int64 column, bool inside, Number<shape> masked_out,
                                          Number<shape> (&values)[shape.vector]) const {
      float mask[shape.vector];
      mask_.load(column, inside, mask);
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = mask[j] != 0.0f ? values[j] : masked_out;
    }

   private:
    MaskOfRow<u8, shape> mask_;
  };
};

/// The mask of a row, which does nothing if the shape has none.
template <const RowShape& shape, typename Mask>
struct MaskFor {
  using type = typename Mask::template Of<shape>;
};
template <const RowShape& shape>
struct MaskFor<shape, NoMask> {
  struct type {
    __device__ __forceinline__ type(const RowParams&, const Row<shape>&) {}
    __device__ __forceinline__ void apply(int64, bool, Number<shape>, const Number<shape> (&)[shape.vector]) const {}
  };
};
template <const RowShape& shape>
using MaskOf = typename MaskFor<shape, typename RowFeatures<shape>::Mask>::type;

}  // namespace tunesmith
