// One thread's slice of a resident row: the first vectors in registers, the rest in shared memory. Each shared-memory slot
// is private to its thread, so no barrier is needed.
#pragma once

#include "row/schedules/later_rows.cuh"
#include "row/schedules/register_row.cuh"

namespace tunesmith {

/// Has the interface of RegisterRow. `other_bytes`: of the vectors of the operation's other inputs.
template <typename Element, const RowShape& shape, const ResidentConfig& config, typename Group,
          template <typename, int> typename RegisterVector, int other_bytes>
struct HybridRow {
  static constexpr int vector = shape.vector;
  static constexpr int in_registers = config.register_vectors;
  static constexpr int vectors = config.register_vectors + config.shared_vectors;
  static constexpr int threads = Group::threads;
  static_assert(vectors == vectors_per_thread<shape, Group::group_size>, "the threads together hold the row");
  using Place = Packed<Element, vector>;
  using Access = Bits<Place::access_bytes>;
  using Value = Compute<Element>;
  using Vector = RegisterVector<Element, vector>;

  Vector registers[in_registers > 0 ? in_registers : 1];
  Access* places;      // this thread's first slot; accesses of neighbouring threads are adjacent
  int end = 0;         // of the row, if launches are sized by it
  int taken_out = -1;  // element in shared memory to replace after arrived(): vector * shape.vector + element

  /// Distance from a block's slots of vector i to its slots of vector i + 1, and to the slots of the next input.
  static constexpr int bytes_of_slots = threads * (Place::bytes + (config.sized_by_row ? other_bytes : 0));
  static constexpr int bytes_to_next = threads * Place::bytes * (config.sized_by_row ? 1 : config.shared_vectors);
  /// `memory`: dynamic shared memory from this input's slots on.
  __device__ __forceinline__ explicit HybridRow(unsigned char* memory)
      : places(reinterpret_cast<Access*>(memory) + thread_index()) {}

  __device__ __forceinline__ Access* place(int i, int access) const {
    if constexpr (bytes_of_slots == threads * Place::bytes)
      return places + ((i - in_registers) * Place::accesses + access) * threads;
    else
      return reinterpret_cast<Access*>(reinterpret_cast<unsigned char*>(places) + (i - in_registers) * bytes_of_slots) +
             access * threads;
  }

  /// Returns whether vector i stores any float without rounding.
  static __device__ __forceinline__ constexpr bool exact(int i) {
    return i < in_registers ? Vector::exact : sizeof(Element) >= 4;
  }

  /// Returns vector i in the layout of global memory.
  __device__ __forceinline__ Place packed_at(int i) const {
    if (i < in_registers) return registers[i < in_registers ? i : 0].packed;
    Place loaded;
#pragma unroll
    for (int k = 0; k < Place::accesses; ++k) loaded.access[k] = *place(i, k);
    return loaded;
  }

  __device__ __forceinline__ void hold(int i, const Place& loaded) {
    if (i < in_registers) {
      registers[i < in_registers ? i : 0].hold(loaded);
    } else {
#pragma unroll
      for (int k = 0; k < Place::accesses; ++k) *place(i, k) = loaded.access[k];
    }
  }
  __device__ __forceinline__ void get(int i, Value (&values)[vector]) {
    if (i < in_registers) {
      registers[i < in_registers ? i : 0].get(values);
    } else {
      packed_at(i).unpack(values);
    }
  }
  __device__ __forceinline__ void put(int i, const Value (&values)[vector]) {
    if (i < in_registers) {
      registers[i < in_registers ? i : 0].put(values);
    } else {
      Place packed;
      packed.pack_from(values);
      hold(i, packed);
    }
  }

  /// Loads a row, whose column 0 is at `first`. Vectors for shared memory are copied asynchronously, bypassing registers:
  /// call arrived() before you use them. Excluded elements read as `outside`.
  __device__ __forceinline__ void load(const Element* first, const Row<shape>& row, int thread_rank, Value outside) {
    constexpr int group_size = Group::group_size;
    if constexpr (config.sized_by_row) end = static_cast<int>(row.all.end);
    const Range seen = row.seen;
    // Issue the asynchronous copies first: they need no registers until arrived().
#if TUNESMITH_SM >= 800
    if constexpr (config.shared_vectors > 0) {
#pragma unroll
      for (int i = in_registers; i < vectors; ++i) {
        if constexpr (config.sized_by_row)
          if (without_slot<shape, config, group_size>(row.all.end, i)) break;
        const int64 column = column_of<shape, group_size>(i, thread_rank);
        if ((!ragged<shape> && inside_row<shape, group_size>(i)) || seen.template holds<vector>(column)) {
#pragma unroll
          for (int k = 0; k < Place::accesses; ++k)
            async_copy<Place::access_bytes>(place(i, k),
                                            reinterpret_cast<const char*>(first + column) + k * Place::access_bytes);
        }
      }
      async_copy_commit();
    }
#else
    static_assert(config.shared_vectors == 0, "asynchronous copies need sm_80 or later");
#endif
#pragma unroll
    for (int i = 0; i < in_registers; ++i)
      registers[i].hold(load_of_row<Element, shape, config.load, group_size>(first, i, thread_rank, seen, outside));
      // Load vectors that cross the end of the row last: they pass through registers, so the thread waits for them.
#pragma unroll
    for (int i = in_registers; i < vectors; ++i) {
      if constexpr (config.sized_by_row)
        if (without_slot<shape, config, group_size>(row.all.end, i)) break;
      if ((!ragged<shape> && inside_row<shape, group_size>(i)) ||
          seen.template holds<vector>(column_of<shape, group_size>(i, thread_rank)))
        continue;
      if constexpr (shape.min_cols > 0)
        hold(i, RowFeatures<shape>::SeenEdges::template load_rest<Element, vector, LoadHint::plain>(
                    first, column_of<shape, group_size>(i, thread_rank), seen, outside));
      else
        hold(i, load_of_row<Element, shape, LoadHint::plain, group_size>(first, i, thread_rank, seen, outside));
    }
  }

  /// Returns the maximum of the loaded elements. Waits for all of them.
  __device__ __forceinline__ Value largest() {
    Value result = Maximum::identity();
    PackedMaximum<Element> packed;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if constexpr (config.sized_by_row)
        if (without_slot<shape, config, Group::group_size>(end, i)) break;
      if (i == in_registers) arrived();
      if constexpr (sizeof(Element) == 2 && vector > 1) {
        packed.include(packed_at(i));
      } else {
        Value values[vector];
        get(i, values);
        result = maximum_or_nan(result, largest_of(values));
      }
    }
    if constexpr (sizeof(Element) == 2 && vector > 1) result = maximum_or_nan(result, packed.value());
    return result;
  }
  __device__ __forceinline__ void arrived() {
#if TUNESMITH_SM >= 800
    if constexpr (config.shared_vectors > 0) {
      async_copy_wait<0>();
      if (taken_out >= 0) replace_in_memory(taken_out / vector, taken_out % vector);
    }
#endif
  }

 private:
  /// Replaces one element in shared memory. `i` is known only at run time, so this does not work for registers.
  __device__ __forceinline__ void replace_in_memory(int i, int element) {
    constexpr int per_access = Place::access_bytes / static_cast<int>(sizeof(Element));
    Access* const access = place(i, element / per_access);
    Packed<Element, per_access> packed;
    packed.access[0] = *access;
    Value values[per_access];
    packed.unpack(values);
#pragma unroll
    for (int j = 0; j < per_access; ++j) values[j] = j == element % per_access ? Value(Maximum::identity()) : values[j];
    packed.pack_from(values);
    *access = packed.access[0];
  }
};

template <template <typename, int> typename RegisterVector>
struct InRegistersAndSharedMemory {
  template <typename Element, const RowShape& shape, const ResidentConfig& config, typename Group, int other_bytes = 0>
  using Row = HybridRow<Element, shape, config, Group, RegisterVector, other_bytes>;
};

}  // namespace tunesmith
