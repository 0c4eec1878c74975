// Kernels that reduce over a strided dimension: arrays of the shape (rows, cols, inner), reduced over `cols`, such as the
// classes of (batch, class, height * width).
//
// Neighbouring threads ("lanes") process neighbouring vectors of a column, so their accesses are coalesced; threads of equal
// lane ("members") share the columns of their vector. The vectors of a column are numbered over all rows, so lanes are busy
// even if `inner` is small.
#pragma once

#include "device/reduce.cuh"
#include "device/vector.cuh"
#include "row/row.cuh"
#include "strided/params.cuh"

namespace tunesmith {

struct StridedConfig {
  int threads;             ///< per block
  int lanes;               ///< threads that process neighbouring vectors: a power of two; threads is a multiple of it
  int vector;              ///< elements: at most 16 bytes of the widest dtype
  int columns;             ///< per thread; resident, or in flight
  int blocks_per_row = 1;  ///< blocks that share the columns
  LoadHint load;
  LoadHint load_again = LoadHint::plain;
  StoreHint store;
};

template <const StridedConfig& config>
constexpr int members = config.threads / config.lanes;

/// The elements of one thread: a vector of columns begin + member, begin + member + members, ... before `end`.
template <const RowShape& shape, const StridedConfig& config>
struct StridedPlace {
  int lane, member;
  int64 tile;  ///< of `lanes` vectors
  int part;    ///< of the columns
  bool exists;
  int64 row, vector;
  int64 begin, end;

  __device__ __forceinline__ explicit StridedPlace(const StridedParams& params)
      : lane(thread_index() % config.lanes), member(thread_index() / config.lanes) {
    constexpr int blocks = config.blocks_per_row;
    tile = block_index() / blocks;
    part = static_cast<int>(block_index() % blocks);
    int64 index = tile * config.lanes + lane;
    exists = index < params.vectors;
    index = exists ? index : 0;
    row = index / params.vectors_per_row;
    vector = index % params.vectors_per_row;
    constexpr int64 slice = (shape.cols + blocks - 1) / blocks;
    begin = part * slice;
    end = begin + slice < shape.cols ? begin + slice : shape.cols;
  }

  template <typename Element>
  __device__ __forceinline__ const Element* input(const StridedParams& params, int which) const {
    return static_cast<const Element*>(params.row.input[which]) + row * params.row.input_stride[which] +
           vector * (which == 0 ? params.first_vectors : params.second_vectors);
  }
  template <typename Element>
  __device__ __forceinline__ Element* output(const StridedParams& params) const {
    return static_cast<Element*>(params.row.output) + row * params.row.output_stride + vector * params.output_vectors;
  }
  __device__ __forceinline__ bool holds(int64 column) const { return exists && column < end; }

  /// Loads this thread's vector of a column; absent elements read as `outside`.
  template <LoadHint hint, typename Element>
  __device__ __forceinline__ Packed<Element, config.vector> load(const Element* first, int64 stride, int64 column,
                                                                 Compute<Element> outside) const {
    const Range there = {0, holds(column) ? config.vector : 0};
    if constexpr (Packed<Element, config.vector>::access_bytes == 1)  // there are no predicated loads of one byte
      return BranchedEdges::load<Element, config.vector, hint>(first + column * stride, 0, there, false, outside);
    else
      return load_if_whole<Element, config.vector, hint>(first + column * stride, 0, there, outside);
  }
  template <typename Element>
  __device__ __forceinline__ void store(Element* first, int64 stride, int64 column,
                                        const Compute<Element> (&values)[config.vector]) const {
    if (holds(column)) store_whole<Element, config.vector, config.store>(first + column * stride, 0, values);
  }
};

/// Calls body(column) with this thread's first column of each tile of `columns` columns per thread. All threads of a block
/// make the same number of calls.
template <const RowShape& shape, const StridedConfig& config, typename Body>
__device__ __forceinline__ void over_column_tiles(const StridedPlace<shape, config>& place, const Body& body) {
  for (int64 first = place.begin; first < place.end; first += members<config> * config.columns) body(first + place.member);
}

/// Reduces over the members of each lane; all of them get the result. Each `slot` has its own shared memory.
template <int slot, const StridedConfig& config, typename Value, typename Reduction>
__device__ __forceinline__ void reduce_members(Value (&values)[config.vector], Reduction reduction) {
  constexpr int lanes = config.lanes, count = config.vector;
#pragma unroll
  for (int distance = 16; distance >= lanes; distance /= 2) {
#pragma unroll
    for (int j = 0; j < count; ++j) values[j] = reduction(values[j], shuffle_xor(values[j], distance));
  }
  constexpr int groups = lanes < 32 ? config.threads / 32 : config.threads / lanes;
  if constexpr (groups > 1) {
    constexpr int size = lanes * count;
    TUNESMITH_SHARED(Value, partials, groups * size);
    const int lane = thread_index() % lanes;
    const int group = thread_index() / (lanes < 32 ? 32 : lanes);
    if (lanes >= 32 || lane_index() < lanes) {
#pragma unroll
      for (int j = 0; j < count; ++j) partials[group * size + j * lanes + lane] = values[j];
    }
    sync_block();
    for (int i = thread_index(); i < size; i += config.threads) {
      // Several partial results, so that loads overlap and sums have few roundings in a row.
      constexpr int several = groups < 8 ? groups : 8;
      Value parts[several];
#pragma unroll
      for (int g = 0; g < groups; ++g)
        parts[g % several] = g < several ? partials[g * size + i] : reduction(parts[g % several], partials[g * size + i]);
#pragma unroll
      for (int half = several / 2; half > 0; half /= 2) {
#pragma unroll
        for (int g = 0; g < half; ++g) parts[g] = reduction(parts[g], parts[g + half]);
      }
      partials[i] = parts[0];
    }
    sync_block();
#pragma unroll
    for (int j = 0; j < count; ++j) values[j] = partials[j * lanes + lane];
  }
}

/// Begins a kernel of clusters: no block may access the shared memory of a block that has not started.
template <const StridedConfig& config>
__device__ __forceinline__ void start_cluster() {
#if TUNESMITH_SM >= 900
  if constexpr (config.blocks_per_row > 1) cluster_arrive();
#endif
}

#if TUNESMITH_SM >= 900
/// Gives all blocks of a cluster the values of each, which are the same in all members, as [blocks][vector][lanes] in shared
/// memory. Once in a kernel.
template <typename Value, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ const Value* exchange_in_cluster(const StridedPlace<shape, config>& place,
                                                            const Value (&own)[config.vector]) {
  constexpr int size = config.vector * config.lanes;
  TUNESMITH_SHARED(Value, all, config.blocks_per_row * size);
  cluster_wait();
  for (int block = place.member; block < config.blocks_per_row; block += members<config>) {
#pragma unroll
    for (int j = 0; j < config.vector; ++j)
      *shared_of_rank(&all[place.part * size + j * config.lanes + place.lane], block) = own[j];
  }
  sync_cluster();
  return all;
}
#endif

/// A value that is constructed after its declaration, for arrays of types without a default constructor.
template <typename Value>
union Later {
  Value value;
  __device__ __forceinline__ Later() {}
};

}  // namespace tunesmith
