// Rows of a head in pages that a table names.
#pragma once

#include "attention/rows.cuh"

namespace tunesmith {

/// Row i is in slot i % page_size of page table[i / page_size]. See StridedRows for the functions.
template <typename Type, int page_size>
struct PagedRows {
  using Element = Type;

  const Type* start;  ///< slot 0 of page 0
  const int* table;
  int64 page_stride, stride;  ///< elements between neighbouring pages and slots

  static __device__ __forceinline__ int page_of(int index) {
    return static_cast<int>(static_cast<uint32>(index) / static_cast<uint32>(page_size));
  }
  /// Returns the page of a row; 0 from row `end` on, where the table may hold anything.
  __device__ __forceinline__ int page(int index, int end) const { return index < end ? table[page_of(index)] : 0; }
  __device__ __forceinline__ int64 offset_in(int page, int index) const {
    return page * page_stride + (index - page_of(index) * page_size) * stride;
  }
  __device__ __forceinline__ int64 offset(int index, int end) const { return offset_in(page(index, end), index); }
  __device__ __forceinline__ const Type* row(int index, int end) const { return start + offset(index, end); }

  /// Returns the rows of a page, which is entry `number` of the table.
  __device__ __forceinline__ StridedRows<Type> of_page(int page, int number) const {
    return {start + page * page_stride - int64{number} * page_size * stride, stride};
  }
  /// A tile in one page takes one look into the table.
  template <int count>
  __device__ __forceinline__ auto tile(int begin, int end) const {
    if constexpr (page_size % count == 0)
      return of_page(page(begin, end), page_of(begin));
    else
      return *this;
  }

  /// Looks up all pages before the first address is used: the compiler does not move loads across copies, so each would wait
  /// for its own.
  template <int count, int step>
  struct Steps {
    static constexpr bool at_once = count <= 16;

    const PagedRows& rows;
    const int index, end;
    int pages[at_once ? count : 1];

    __device__ __forceinline__ Steps(const PagedRows& of, int first_index, int end_index)
        : rows(of), index(first_index), end(end_index) {
#pragma unroll
      for (int i = 0; i < (at_once ? count : 1); ++i) pages[i] = rows.page(index + i * step, end);
    }
    __device__ __forceinline__ int64 offset(int i) const {
      const int row = index + i * step;
      if constexpr (at_once) return rows.offset_in(pages[i], row);
      return rows.offset(row, end);
    }
    __device__ __forceinline__ const Type* first() const { return rows.start + offset(0); }
    __device__ __forceinline__ int64 after(int i) const { return i + 1 < count ? offset(i + 1) - offset(i) : 0; }
  };
  template <int count, int step>
  __device__ __forceinline__ Steps<count, step> steps(int first_index, int end) const {
    return {*this, first_index, end};
  }
};

}  // namespace tunesmith
