// Inputs of several rows, and arrays [col], in shared memory. A thread reads only what it has copied itself, so there is no
// barrier: slots are private to a thread, and accesses of neighbouring threads are adjacent.
#pragma once

#include "row/gather.cuh"

namespace tunesmith {

struct PersistentConfig {
  int vectors;         ///< of a row in each thread
  int batches;         ///< batches in shared memory: the current one and those that are being loaded
  int rows_at_once;    ///< rows of a batch
  bool keeps_columns;  ///< arrays [col] stay in shared memory
  StoreHint store;
};

/// A thread's slots for vectors of type Element.
template <typename Element, const RowShape& shape, const PersistentConfig& config, typename Group>
struct Slots {
  using Place = Packed<Element, shape.vector>;
  using Access = Bits<Place::access_bytes>;
  static constexpr int bytes = config.vectors * Group::threads * Place::bytes;  ///< of a block

  Access* places;

  __device__ __forceinline__ explicit Slots(unsigned char* memory)
      : places(reinterpret_cast<Access*>(memory) + thread_index()) {}
  __device__ __forceinline__ Access* place(int i, int access) const {
    return places + (i * Place::accesses + access) * Group::threads;
  }
  __device__ __forceinline__ void get(int i, Compute<Element> (&values)[shape.vector]) const {
    Place packed;
#pragma unroll
    for (int k = 0; k < Place::accesses; ++k) packed.access[k] = *place(i, k);
    packed.unpack(values);
  }
  __device__ __forceinline__ void hold(int i, const Place& packed) const {
#pragma unroll
    for (int k = 0; k < Place::accesses; ++k) *place(i, k) = packed.access[k];
  }
  __device__ __forceinline__ void put(int i, const Compute<Element> (&values)[shape.vector]) const {
    Place packed;
    packed.pack_from(values);
    hold(i, packed);
  }

  /// Requests a row; vectors that cross its end are loaded at once, with zeros after the end.
  __device__ __forceinline__ void request(const Element* row, Range seen, int thread_rank) const {
#pragma unroll
    for (int i = 0; i < config.vectors; ++i) {
      const int64 column = column_of<shape, Group::group_size>(i, thread_rank);
      if (inside_row<shape, Group::group_size>(i) || seen.template holds<shape.vector>(column)) {
#pragma unroll
        for (int k = 0; k < Place::accesses; ++k)
          async_copy<Place::access_bytes>(place(i, k),
                                          reinterpret_cast<const char*>(row + column) + k * Place::access_bytes);
      } else {
        hold(i, load_of_row<Element, shape, LoadHint::plain, Group::group_size>(row, i, thread_rank, seen, 0.0f));
      }
    }
  }
};

/// The inputs of a row. `index`: of the first one.
template <int index, const RowShape& shape, const PersistentConfig& config, typename Group, typename... Elements>
struct StagedInputs {
  static constexpr int bytes = 0;  ///< of a block
  __device__ __forceinline__ explicit StagedInputs(unsigned char*) {}
  template <typename Program>
  __device__ __forceinline__ void request(const typename Program::Params&, const Row<shape>&, int) const {}
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int, Vector&) const {}
  static __device__ __forceinline__ constexpr bool can_keep(int) { return true; }
  template <typename Vector>
  __device__ __forceinline__ void keep(int, int, const Vector&) const {}
};
template <int index, const RowShape& shape, const PersistentConfig& config, typename Group, typename First, typename... Rest>
struct StagedInputs<index, shape, config, Group, First, Rest...> {
  using Others = StagedInputs<index + 1, shape, config, Group, Rest...>;
  static constexpr int bytes = Slots<First, shape, config, Group>::bytes + Others::bytes;

  Slots<First, shape, config, Group> first;
  Others rest;

  __device__ __forceinline__ explicit StagedInputs(unsigned char* memory)
      : first(memory), rest(memory + Slots<First, shape, config, Group>::bytes) {}
  template <typename Program>
  __device__ __forceinline__ void request(const typename Program::Params& params, const Row<shape>& row,
                                          int thread_rank) const {
    first.request(Program::template input<index>(params).template at<First>(row), row.seen, thread_rank);
    rest.template request<Program>(params, row, thread_rank);
  }
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int i, Vector& v) const {
    if constexpr ((used >> index & 1u) != 0) get_numbers<First>(first, i, v.input[index]);
    rest.template get<used>(i, v);
  }
  /// Returns whether the first `count` inputs have room for numbers.
  static __device__ __forceinline__ constexpr bool can_keep(int count) {
    return index >= count || (is_same<First, Number<shape>> && Others::can_keep(count));
  }
  /// Replaces vector i of the first `count` inputs.
  template <typename Vector>
  __device__ __forceinline__ void keep(int i, int count, const Vector& v) const {
    if (index >= count) return;
    if constexpr (is_same<Compute<First>, Number<shape>>) first.put(i, v.input[index]);
    rest.keep(i, count, v);
  }
};
template <typename Inputs, const RowShape& shape, const PersistentConfig& config, typename Group>
struct StagedInputsOf;
template <typename... Elements, const RowShape& shape, const PersistentConfig& config, typename Group>
struct StagedInputsOf<TypeList<Elements...>, shape, config, Group> {
  using type = StagedInputs<0, shape, config, Group, Elements...>;
};

/// Arrays [col]; elements of one byte are kept as float. `index`: of the first one.
template <int index, const RowShape& shape, const PersistentConfig& config, typename Group, typename... Arrays>
struct KeptColumns {
  __device__ __forceinline__ explicit KeptColumns(unsigned char*) {}
  template <typename Program>
  __device__ __forceinline__ void fill(const typename Program::Params&, const Row<shape>&, int) const {}
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int, Vector&) const {}
};
template <int index, const RowShape& shape, const PersistentConfig& config, typename Group, typename First, typename... Rest>
struct KeptColumns<index, shape, config, Group, First, Rest...> {
  using Element = typename ElementOf<First>::type;
  using Stored = typename If<sizeof(Element) == 1, float, Element>::type;

  Slots<Stored, shape, config, Group> first;
  KeptColumns<index + 1, shape, config, Group, Rest...> rest;

  __device__ __forceinline__ explicit KeptColumns(unsigned char* memory)
      : first(memory), rest(memory + Slots<Stored, shape, config, Group>::bytes) {}

  template <typename Program>
  __device__ __forceinline__ void fill(const typename Program::Params& params, const Row<shape>& row,
                                       int thread_rank) const {
#pragma unroll
    for (int i = 0; i < config.vectors; ++i) {
      Compute<Stored> values[shape.vector];
      First::template load<shape>(Program::template column_array<index>(params), row,
                                  column_of<shape, Group::group_size>(i, thread_rank),
                                  inside_row<shape, Group::group_size>(i), values);
      first.put(i, values);
    }
    rest.template fill<Program>(params, row, thread_rank);
  }
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int i, Vector& v) const {
    if constexpr ((used >> index & 1u) != 0) get_numbers<Stored>(first, i, v.of_column[index]);
    rest.template get<used>(i, v);
  }
};
template <typename Arrays, const RowShape& shape, const PersistentConfig& config, typename Group>
struct KeptColumnsOf;
template <typename... Arrays, const RowShape& shape, const PersistentConfig& config, typename Group>
struct KeptColumnsOf<ColumnList<Arrays...>, shape, config, Group> {
  using type = KeptColumns<0, shape, config, Group, Arrays...>;
};

}  // namespace tunesmith
