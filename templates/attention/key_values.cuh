// Rows of K and V as kernels see them whose threads copy rows.
#pragma once

#include "attention/paged_rows.cuh"
#include "attention/sequence.cuh"

namespace tunesmith {

/// K and V of a sequence and key head: arrays with an entry for each sequence, or with packed sequences.
template <typename Element, const AttentionShape& shape>
class ContiguousKeyValues {
 public:
  __device__ __forceinline__ ContiguousKeyValues(const AttentionParams& params, const Sequence& sequence, int batch,
                                                 int kv_head)
      : params_(params),
        k_(start_of(static_cast<const Element*>(params.k), params.k_strides, sequence, batch, kv_head)),
        v_(start_of(static_cast<const Element*>(params.v), params.v_strides, sequence, batch, kv_head)) {}

  // Strides are read where they are used: they are kernel parameters, which take no registers.
  __device__ __forceinline__ StridedRows<Element> k() const { return {k_, params_.k_strides.seq}; }
  __device__ __forceinline__ StridedRows<Element> v() const { return {v_, params_.v_strides.seq}; }

  /// What a K/V tile looks up before its addresses are known.
  struct Place {};
  template <int keys>
  static __device__ __forceinline__ Place find(int, int) {
    return {};
  }
  __device__ __forceinline__ StridedRows<Element> k(Place) const { return k(); }
  __device__ __forceinline__ StridedRows<Element> v(Place) const { return v(); }

  /// Nothing to prefetch: addresses do not depend on a table.
  static __device__ __forceinline__ void prefetch(const AttentionParams&, int, int, int) {}

 private:
  static __device__ __forceinline__ const Element* start_of(const Element* base, const AttentionStrides& strides,
                                                            const Sequence& sequence, int batch, int kv_head) {
    constexpr bool packed = shape.varlen && !shape.kv_lengths;
    return base + (packed ? sequence.kv_start * strides.seq : batch * strides.batch) + kv_head * strides.head;
  }

  const AttentionParams& params_;
  const Element *k_, *v_;
};

/// The same in pages. A page has page_size positions of all key heads.
template <typename Element, const AttentionShape& shape>
class PagedKeyValues {
 public:
  using Rows = PagedRows<Element, shape.page_size>;

  __device__ __forceinline__ PagedKeyValues(const AttentionParams& params, const Sequence&, int batch, int kv_head)
      : params_(params),
        k_(static_cast<const Element*>(params.k) + kv_head * params.k_strides.head),
        v_(static_cast<const Element*>(params.v) + kv_head * params.v_strides.head),
        table_(table_of(params, batch)) {}

  __device__ __forceinline__ Rows k() const { return {k_, table_, params_.k_strides.batch, params_.k_strides.seq}; }
  __device__ __forceinline__ Rows v() const { return {v_, table_, params_.v_strides.batch, params_.v_strides.seq}; }

  /// The page of a K/V tile, and its entry in the table: a warp looks them up a tile ahead.
  struct Page {
    int page, number;
  };
  struct ManyPages {};
  /// Looks up the page of the tile from key `first` on, if pages are a multiple of tiles. The same for K and V.
  template <int keys>
  __device__ __forceinline__ auto find(int first, int end) const {
    if constexpr (shape.page_size % keys == 0)
      return Page{k().page(first, end), Rows::page_of(first)};
    else
      return ManyPages{};
  }
  __device__ __forceinline__ StridedRows<Element> k(Page found) const { return k().of_page(found.page, found.number); }
  __device__ __forceinline__ StridedRows<Element> v(Page found) const { return v().of_page(found.page, found.number); }
  __device__ __forceinline__ Rows k(ManyPages) const { return k(); }
  __device__ __forceinline__ Rows v(ManyPages) const { return v(); }

  /// Starts to bring part `part` of `parts` of the sequence's table into L2 while its length is read. Called by all threads.
  static __device__ __forceinline__ void prefetch(const AttentionParams& params, int batch, int part, int parts) {
#if TUNESMITH_SM >= 900
    const int share = params.seq_kv / shape.page_size / parts;
    if (thread_index() == 0 && share > 0) prefetch_to_l2<LoadHint::plain>(table_of(params, batch) + part * share, share * 4);
#endif
  }

 private:
  static __device__ __forceinline__ const int* table_of(const AttentionParams& params, int batch) {
    return pages_of<shape>(params).block_table + batch * pages_of<shape>(params).table_stride;
  }

  const AttentionParams& params_;
  const Element *k_, *v_;
  const int* table_;
};

/// `Element`: of Q; a feature may have another type for K and V.
template <typename Element, const AttentionShape& shape>
using KeyValuesOf = typename AttentionFeatures<shape>::template KeyValues<Element>;

/// Keys and values have no scales.
struct NoScales {
  __device__ __forceinline__ NoScales(const AttentionParams&, const Sequence&, int, int) {}
  template <bool>
  static __device__ __forceinline__ NoFactor k_factor() {
    return {};
  }
  static __device__ __forceinline__ NoFactor v_factor() { return {}; }
};

template <const AttentionShape& shape>
using ScalesOf = typename AttentionFeatures<shape>::Scales;

}  // namespace tunesmith
