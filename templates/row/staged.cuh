// Rows that pass through shared memory. The rows of a block lie in global memory without gaps, so they are copied as whole
// vectors of 16 bytes whatever the number of columns; lanes then take their elements or pairs from shared memory. Results
// return the same way.
//
// A generated kernel replaces the addresses of its arrays by those in shared memory (StagedRows) and calls the kernel
// template of resident rows. Its group takes several rows one after another, and its Edges access shared memory.
#pragma once

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
  int64 first_row, first;  ///< of the block; its first element in an array
  int rows, elements;      ///< of the block; not positive for a surplus block of a folded grid

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
    const int last = vectors * per_vector + thread_index();
    if (thread_index() < per_vector && last < elements) rest(last);
  }

  /// Requests the rows of an array; returns their address in shared memory. Call arrived() before you use them.
  template <typename Element>
  __device__ __forceinline__ const void* request(const void* array, int offset) const {
    unsigned char* const region = dynamic_shared() + offset;
    const Element* const from = static_cast<const Element*>(array) + first;
    // Constant distances from these addresses are part of the instructions.
    unsigned char* const first_to = region + thread_index() * 16;
    const char* const first_from = reinterpret_cast<const char*>(from) + thread_index() * 16;
    over_vectors<Element>([&](int bytes) { async_copy<16>(first_to + bytes, first_from + bytes); },
                          [&](int i) { reinterpret_cast<Element*>(region)[i] = from[i]; });
    return region;
  }
  /// Loads an array with one element for each row into L1, where the rows find them.
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
  }
  /// Returns the address of results in shared memory: they may replace rows, of which each lane reads what it replaces.
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

/// A sum of groups of 2^levels terms. Each group is summed pairwise, so `levels` roundings meet a term, and two terms take
/// one addition; `Sum` adds the groups.
template <typename Sum, typename Number, int levels>
struct SumOfTrees {
  Sum sum;
  Number part[levels] = {};  ///< of 2^level terms each, as the bits of `terms` say
  int terms = 0;

  __device__ __forceinline__ void include(Number term) {
    bool complete = true;
#pragma unroll
    for (int level = 0; level < levels && complete; ++level) {
      complete = (terms >> level & 1) != 0;
      term = complete ? add(part[level], term) : term;
      part[level] = term;
    }
    if (complete && terms < 1 << levels)
      sum.sum = term;
    else if (complete)
      sum.include(term);
    ++terms;
  }
  __device__ __forceinline__ Number value() const {
    Number rest = 0.0f;
#pragma unroll
    for (int level = 0; level < levels; ++level)
      if ((terms >> level & 1) != 0) rest = add(rest, part[level]);
    Sum all = sum;
    all.include(rest);
    return all.value();
  }
};

template <const RowShape& shape, typename Sum>
struct SumOfVectors<shape, Sum, true> {
  static constexpr bool compensated = sizeof(Sum) > sizeof(Number<shape>);
  using type = typename If<compensated, SumOfGroups<Sum, Number<shape>, 4 / shape.vector>, Sum>::type;
};

}  // namespace tunesmith
