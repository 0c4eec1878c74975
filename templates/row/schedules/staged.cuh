// Rows that pass through shared memory. The rows of a block lie in global memory without gaps, so they are copied as whole
// vectors of 16 bytes whatever the number of columns: on sm_90a by one bulk copy for each array, otherwise by cp.async.
// Lanes then take their elements or pairs from shared memory. Results return as vectors, too.
//
// A generated kernel replaces the addresses of its arrays by those in shared memory (StagedRows) and calls the kernel
// template of resident rows. Its group takes several rows one after another, and its Edges access shared memory.
#pragma once

#include "device/bulk.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Lanes of a warp that take `rounds` rows of their block one after another.
template <int block_threads, int lanes, int rounds>
struct StagedLaneGroup : LaneGroup<block_threads, lanes> {
  using LaneGroup<block_threads, lanes>::LaneGroup;
  static constexpr int rows_at_once = block_threads / lanes;
  static constexpr int block_rows = rows_at_once * rounds;
};

/// Calls body(row, exists) as for LaneGroup, for each row of the block. Lanes without a row may find results in the row that
/// they repeat, so they must write nothing to shared memory.
template <int block_threads, int lanes, int rounds, typename Body>
__device__ __forceinline__ void over_rows(const StagedLaneGroup<block_threads, lanes, rounds>&, int64 rows,
                                          const Body& body) {
  using Group = StagedLaneGroup<block_threads, lanes, rounds>;
  const int64 first = block_index() * Group::block_rows;
  const int existing = rows - first < Group::block_rows ? static_cast<int>(rows - first) : Group::block_rows;
#pragma unroll 1
  for (int begin = warp_index() * (32 / lanes); begin < existing; begin += Group::rows_at_once) {
    const int place = begin + lane_index() / lanes;
    const bool exists = place < existing;
    body(first + (exists ? place : existing - 1), exists);
  }
}

/// The rows of a block. Regions of shared memory start `offset` bytes, a multiple of 16, into the dynamic shared memory.
template <const RowShape& shape, typename Group>
struct StagedRows {
  static constexpr int max_bulk_copies = 4;

  int64 first_row, first;  ///< of the block; its first element in an array
  int rows, elements;      ///< of the block; not positive for a surplus block of a folded grid
  int bulk_copies = 0;     ///< that request() has started

  __device__ __forceinline__ explicit StagedRows(const RowParams& params) : first_row(block_index() * shape.staged_rows) {
    const int64 left = params.rows - first_row;
    const int cols = static_cast<int>(columns_of<shape>(params));
    first = first_row * cols;
    rows = left < shape.staged_rows ? static_cast<int>(left) : shape.staged_rows;
    elements = rows * cols;
  }

  /// Calls whole(bytes) for each vector of 16 bytes of this thread, with its distance from the thread's first one, and
  /// rest(element) for an element after the last vector.
  template <typename Element, typename Whole, typename Rest>
  __device__ __forceinline__ void over_vectors(const Whole& whole, const Rest& rest) const {
    constexpr int size = static_cast<int>(sizeof(Element)), per_vector = 16 / size;
    constexpr int most = static_cast<int>((shape.staged_rows * shape.cols * size + 15) / 16);
    const int vectors = elements / per_vector, from_first = vectors - thread_index();
#pragma unroll 8
    for (int begin = 0; begin < most; begin += Group::threads)
      if (begin < from_first) whole(begin * 16);
    over_rest<Element>(rest);
  }
  /// Calls rest(element) for an element of this thread after the last vector.
  template <typename Element, typename Rest>
  __device__ __forceinline__ void over_rest(const Rest& rest) const {
    constexpr int per_vector = 16 / static_cast<int>(sizeof(Element));
    const int last = elements / per_vector * per_vector + thread_index();
    if (thread_index() < per_vector && last < elements) rest(last);
  }

  /// Requests the rows of an array; returns their address in shared memory. Call arrived() before you use them.
  template <typename Element>
  __device__ __forceinline__ const void* request(const void* array, int offset) {
    unsigned char* const region = dynamic_shared() + offset;
    const Element* const from = static_cast<const Element*>(array) + first;
    if (copied_in_bulk(region, from)) {
      over_rest<Element>([&](int i) { reinterpret_cast<Element*>(region)[i] = from[i]; });
      return region;
    }
    // Constant distances from these addresses are part of the instructions.
    unsigned char* const first_to = region + thread_index() * 16;
    const char* const first_from = reinterpret_cast<const char*>(from) + thread_index() * 16;
    over_vectors<Element>([&](int bytes) { async_copy<16>(first_to + bytes, first_from + bytes); },
                          [&](int i) { reinterpret_cast<Element*>(region)[i] = from[i]; });
    return region;
  }
  /// Loads an array with one element for each row into L1, for later loads by the rows.
  template <typename Element>
  __device__ __forceinline__ void bring_near(const void* array) const {
    constexpr int sector = 32 / static_cast<int>(sizeof(Element));
    for (int i = thread_index() * sector; i < rows; i += Group::threads * sector)
      load<static_cast<int>(sizeof(Element)), LoadHint::plain>(static_cast<const Element*>(array) + first_row + i);
  }
  __device__ __forceinline__ void arrived() const {
    async_copy_commit();
    async_copy_wait<0>();
    sync_block();
#if TUNESMITH_HAS_SM90A
    const uint32 barriers = barriers_of_copies();
#pragma unroll
    for (int i = 0; i < max_bulk_copies; ++i)
      if (i < bulk_copies) barrier_wait(barriers + i * 8, 0);
#endif
  }
  /// Starts the copy of the vectors of an array by one thread, which spares the instructions of a copy of each vector.
  /// Returns false if there is no such copy, or no barrier left for it.
  template <typename Element>
  __device__ __forceinline__ bool copied_in_bulk(unsigned char* region, const Element* from) {
#if TUNESMITH_HAS_SM90A
    if (bulk_copies == max_bulk_copies) return false;
    const uint32 barrier = barriers_of_copies() + 8 * bulk_copies++;
    if (thread_index() == 0) {
      const int bytes = elements > 0 ? elements * static_cast<int>(sizeof(Element)) / 16 * 16 : 0;
      barrier_init(barrier, 1);
      barriers_ready();
      barrier_arrive_expecting(barrier, bytes);
      if (bytes > 0) copy_bulk(shared_address(region), from, bytes, barrier, L2Hint::evict_normal);
    }
    return true;
#else
    return false;
#endif
  }
#if TUNESMITH_HAS_SM90A
  static __device__ __forceinline__ uint32 barriers_of_copies() {
    TUNESMITH_SHARED(uint64, barriers, max_bulk_copies);
    return shared_address(barriers);
  }
#endif
  /// Returns the address of results in shared memory. They may replace rows: each lane replaces only what it has read.
  static __device__ __forceinline__ void* results(int offset) { return dynamic_shared() + offset; }
  /// Waits for all results.
  static __device__ __forceinline__ void computed() { sync_block(); }
  template <typename Element, StoreHint hint>
  __device__ __forceinline__ void write(void* array, int offset) const {
    const unsigned char* const region = dynamic_shared() + offset;
    Element* const to = static_cast<Element*>(array) + first;
    const unsigned char* const first_from = region + thread_index() * 16;
    char* const first_to = reinterpret_cast<char*>(to) + thread_index() * 16;
    over_vectors<Element>(
        [&](int bytes) { store<16, hint>(first_to + bytes, *reinterpret_cast<const Bits<16>*>(first_from + bytes)); },
        [&](int i) { to[i] = reinterpret_cast<const Element*>(region)[i]; });
  }
};

/// WholeVectors for rows in shared memory.
struct SharedVectors {
  static constexpr bool late_ends = false;
  static __device__ __forceinline__ Range without_begin(Range range) { return GuardedVectors::without_begin(range); }

  template <typename T, int count, LoadHint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    const auto* const address = reinterpret_cast<const Packed<T, count>*>(row + static_cast<int>(column));
    if (inside) return *address;
    Packed<T, count> vector;
    Compute<T> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = outside;
    vector.pack_from(values);
    if (GuardedVectors::holds<count>(range, column)) vector = *address;
    return vector;
  }
  template <typename T, int count, StoreHint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    Packed<T, count> vector;
    vector.pack_from(values);
    if (inside || GuardedVectors::holds<count>(range, column))
      *reinterpret_cast<Packed<T, count>*>(row + static_cast<int>(column)) = vector;
  }
};

/// The same for ranges that may end within a vector, as with variable row lengths.
struct SharedElements : SharedVectors {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool,
                                                          Compute<T> outside) {
    Packed<T, count> vector;
    Compute<T> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      Compute<T> value[1];
      SharedVectors::load<T, 1, hint>(row, column + i, range, false, outside).unpack(value);
      values[i] = value[0];
    }
    vector.pack_from(values);
    return vector;
  }
};

/// Rows of 16-bit elements as pairs, where every other row starts within a pair: its columns count from that pair. `shape`
/// has accesses to elements. A row shares its first and last pair with its neighbours.
template <const RowShape& shape>
struct AsPairs {
  static constexpr RowShape value = {.cols = shape.cols,
                                     .min_cols = shape.min_cols,
                                     .vector = 2,
                                     .shifted = true,
                                     .line = 2,
                                     .staged_rows = shape.staged_rows};
};

/// Accesses to the elements of a pair that are in a row. The pair is not before the row.
struct SharedPairs : SharedVectors {
  static constexpr int64 endless = 0x7fffffff;  ///< the end of a range that the pair is known not to reach

  static __device__ __forceinline__ bool has_first(int column, Range range) {
    return column >= static_cast<int>(range.begin) && (range.end == endless || column < static_cast<int>(range.end));
  }
  static __device__ __forceinline__ bool has_second(int column, Range range) {
    return range.end == endless || column + 1 < static_cast<int>(range.end);
  }

  template <typename T, int count, LoadHint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    static_assert(sizeof(T) == 2 && count == 2, "pairs of 16 bits");
    const int at = static_cast<int>(column);
    const auto* const address = reinterpret_cast<const Packed<T, 2>*>(row + at);
    if (inside) return *address;
    const Compute<T> both[2] = {outside, outside};
    Packed<T, 2> pair;
    pair.pack_from(both);
    const uint32 without = pair.access[0].word[0];
    if (range.end == endless || at < static_cast<int>(range.end)) pair = *address;
    uint32& word = pair.access[0].word[0];
    if (at < static_cast<int>(range.begin)) word = (word & 0xffff0000u) | (without & 0xffffu);
    if (!has_second(at, range)) word = (word & 0xffffu) | (without & 0xffff0000u);
    return pair;
  }
  template <typename T, int count, StoreHint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    static_assert(sizeof(T) == 2 && count == 2, "pairs of 16 bits");
    const int at = static_cast<int>(column);
    const bool first = inside || has_first(at, range), second = inside || has_second(at, range);
    Packed<T, 2> pair;
    pair.pack_from(values);
    if (!inside) pair.forget_uses();  // as in GuardedVectors: no branch around a conversion
    const uint32 word = pair.access[0].word[0];
    if (first && second) *reinterpret_cast<Packed<T, 2>*>(row + at) = pair;
    if (first && !second) row[at] = T{static_cast<uint16>(word)};
    if (!first && second) row[at + 1] = T{static_cast<uint16>(word >> 16)};
  }
};

/// Returns a row of a block, whose columns count from the pair in which it starts if `shape` is one of AsPairs.
template <const RowShape& shape, typename Input>
__device__ __forceinline__ Row<shape> staged_row(const RowParams& params, int64 index) {
  Row<shape> row(params, index, static_cast<const Input*>(nullptr));
  if constexpr (shape.shifted) {
    const auto cols = static_cast<int>(columns_of<shape>(params));
    row.shift = static_cast<int>(index - block_index() * shape.staged_rows) * cols & 1;
    row.all = row.seen = {row.shift, row.shift + cols};
  }
  return row;
}

/// Returns `range` for vector `i` of a thread, without comparisons that are known to be true.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ Range range_of_pairs(const Range& range, int i) {
  constexpr int64 least = shape.min_cols > 0 ? shape.min_cols : shape.cols;
  const bool ends_after = (int64{i} + 1) * group_size * shape.vector <= least;
  return {i == 0 ? range.begin : 0, ends_after ? SharedPairs::endless : range.end};
}

/// load_of_row() and store_of_row() for rows in shared memory; `row` is the address of column 0.
template <typename Element, const RowShape& shape, int group_size>
__device__ __forceinline__ Packed<Element, shape.vector> load_staged(const Element* row, int i, int thread_rank, Range seen,
                                                                     Compute<Element> outside) {
  if constexpr (shape.shifted)
    return SharedPairs::load<Element, shape.vector, LoadHint::plain>(row, column_of<shape, group_size>(i, thread_rank),
                                                                     range_of_pairs<shape, group_size>(seen, i),
                                                                     inside_row<shape, group_size>(i), outside);
  else
    return load_of_row<Element, shape, LoadHint::plain, group_size>(row, i, thread_rank, seen, outside);
}
template <typename Element, const RowShape& shape, int group_size>
__device__ __forceinline__ void store_staged(Element* output, int i, int thread_rank, const Row<shape>& row,
                                             const Compute<Element> (&values)[shape.vector]) {
  if constexpr (shape.shifted)
    SharedPairs::store<Element, shape.vector, StoreHint::plain>(output, column_of<shape, group_size>(i, thread_rank),
                                                                range_of_pairs<shape, group_size>(row.all, i),
                                                                inside_row<shape, group_size>(i), values);
  else
    store_of_row<Element, shape, StoreHint::plain, group_size>(output, i, thread_rank, row, values);
}

/// A compensated sum to which a few terms are added at once: elements and pairs would otherwise cost more additions than
/// vectors. Up to four elements, as in a vector of float.
template <typename Sum, typename Number, int most>
struct SumOfGroups {
  Sum sum;
  Number part = 0.0f;
  int terms = 0;

  __device__ __forceinline__ void include(Number term) {
    part = terms == 0 ? term : add(part, term);
    if (++terms < most) return;
    sum.include(part);
    part = 0.0f;
    terms = 0;
  }
  __device__ __forceinline__ Sum whole() const {
    Sum all = sum;
    all.include(part);
    return all;
  }
  __device__ __forceinline__ Number value() const { return whole().value(); }
  __device__ __forceinline__ PairOf<Number> both() const { return whole().both(); }
};

template <const RowShape& shape, typename Sum>
struct SumOfVectors<shape, Sum, true> {
  static constexpr bool compensated = sizeof(Sum) > sizeof(Number<shape>);
  using type = typename If<compensated, SumOfGroups<Sum, Number<shape>, 4 / shape.vector>, Sum>::type;
};

}  // namespace tunesmith
