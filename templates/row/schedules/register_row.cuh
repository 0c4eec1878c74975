// One thread's slice of a resident row, entirely in registers. row/schedules/hybrid_row.cuh adds shared memory.
#pragma once

#include "row/row.cuh"

namespace tunesmith {

/// Number of resident vectors per thread, and where they are.
struct ResidentConfig {
  int register_vectors;
  int shared_vectors;  ///< in shared memory, after those in registers
  LoadHint load;
  StoreHint store;
  /// A launch has shared memory for the columns of its rows only, which may be fewer than the kernel has room for. The slots
  /// of several inputs alternate then, so that absent vectors have the last slots.
  bool sized_by_row = false;
};

/// Returns whether vector i of every thread is beyond the `end` of the row and would be in shared memory, where it may have
/// no slot. The same for all threads of the group. Ask only `if constexpr (shape.min_cols > 0)`, as with beyond_row().
template <const RowShape& shape, const ResidentConfig& config, int group_size>
__device__ __forceinline__ bool without_slot(int64 end, int i) {
  const int64 first = int64{i} * group_size * shape.vector;
  return config.sized_by_row && i >= config.register_vectors && first >= shape.min_cols &&
         static_cast<int>(first) >= static_cast<int>(end);
}

/// Returns whether a loop over the vectors of a resident row ends before vector i: if it `leaves` at the end of the row, as
/// beyond_row() says, or because of without_slot().
template <const RowShape& shape, const ResidentConfig& config, int group_size, bool leaves>
__device__ __forceinline__ bool row_ends(int64 end, int i) {
  if constexpr (leaves)
    if (beyond_row<shape, group_size>(end, i)) return true;
  if constexpr (config.sized_by_row) return without_slot<shape, config, group_size>(end, i);
  return false;
}

/// A register vector in the layout of global memory, converted at each use: half the registers for 16-bit elements.
template <typename Element, int vector>
struct PackedVector {
  static constexpr bool converted = false;
  static constexpr bool exact = sizeof(Element) >= 4;  ///< stores any float without rounding
  Packed<Element, vector> packed;

  __device__ __forceinline__ void hold(const Packed<Element, vector>& loaded) { packed = loaded; }
  __device__ __forceinline__ void get(Compute<Element> (&values)[vector]) {
    packed.forget_uses();  // otherwise the compiler keeps the unpacked row in registers, which defeats packing
    packed.unpack(values);
  }
  __device__ __forceinline__ void put(const Compute<Element> (&values)[vector]) { packed.pack_from(values); }
  __device__ __forceinline__ void convert() {}
};

/// A register vector as float32 (or double), converted once.
template <typename Element, int vector>
struct FloatVector {
  static constexpr bool converted = true;
  static constexpr bool exact = true;
  Packed<Element, vector> packed;  ///< as loaded; takes no registers after the last use
  Compute<Element> values_[vector];

  __device__ __forceinline__ void hold(const Packed<Element, vector>& loaded) {
    packed = loaded;
    convert();
  }
  /// Converts `packed` again after a change.
  __device__ __forceinline__ void convert() { packed.unpack(values_); }
  __device__ __forceinline__ void get(Compute<Element> (&values)[vector]) const {
#pragma unroll
    for (int j = 0; j < vector; ++j) values[j] = values_[j];
  }
  __device__ __forceinline__ void put(const Compute<Element> (&values)[vector]) {
#pragma unroll
    for (int j = 0; j < vector; ++j) values_[j] = values[j];
    if constexpr (sizeof(Element) == 2) packed.pack_from(values);
  }
};

/// `Element` is the stored type: usually the array's, but float if 16 bits cannot represent a masked element.
template <typename Element, const RowShape& shape, const ResidentConfig& config, typename Group,
          template <typename, int> typename RegisterVector>
struct RegisterRow {
  static constexpr int vector = shape.vector;
  static constexpr int in_registers = config.register_vectors;
  static constexpr int vectors = config.register_vectors + config.shared_vectors;
  static constexpr int bytes_to_next = 0;
  static_assert(vectors == vectors_per_thread<shape, Group::group_size>, "the threads together hold the row");
  using Value = Compute<Element>;
  using Vector = RegisterVector<Element, vector>;

  Vector registers[in_registers > 0 ? in_registers : 1];
  int end = static_cast<int>(shape.cols);  ///< of the row

  __device__ __forceinline__ explicit RegisterRow(unsigned char*) {}

  /// Returns whether vector i stores any float without rounding.
  static __device__ __forceinline__ constexpr bool exact(int) { return Vector::exact; }
  /// Returns vector i in the layout of global memory.
  __device__ __forceinline__ Packed<Element, vector> packed_at(int i) const { return registers[i].packed; }
  __device__ __forceinline__ void get(int i, Value (&values)[vector]) { registers[i].get(values); }
  __device__ __forceinline__ void put(int i, const Value (&values)[vector]) { registers[i].put(values); }

  /// Loads a row, whose column 0 is at `first`; excluded elements read as `outside`.
  __device__ __forceinline__ void load(const Element* first, const Row<shape>& row, int thread_rank, Value outside) {
    end = static_cast<int>(row.all.end);
    load_vectors_of_row<Element, shape, config.load, Group::group_size, in_registers>(
        first, thread_rank, row.seen, outside,
        [&](int i, const Packed<Element, vector>& loaded) { registers[i].hold(loaded); });
  }
  /// Waits for asynchronous copies of load(): there are none.
  __device__ __forceinline__ void arrived() {}

  /// Returns the maximum of the loaded elements.
  __device__ __forceinline__ Value largest() {
    Value result = Maximum::identity();
    PackedMaximum<Element> packed;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if constexpr (leaves_early<shape>)
        if (beyond_row<shape, Group::group_size>(end, i)) break;
      if constexpr (sizeof(Element) == 2 && vector > 1) {
        packed.include(registers[i].packed);
      } else {
        Value values[vector];
        get(i, values);
        result = maximum_or_nan(result, largest_of(values));
      }
    }
    if constexpr (sizeof(Element) == 2 && vector > 1) result = maximum_or_nan(result, packed.value());
    return result;
  }
};

/// Storage policy of a row, for kernels that work with any storage.
template <template <typename, int> typename RegisterVector>
struct InRegisters {
  template <typename Element, const RowShape& shape, const ResidentConfig& config, typename Group, int other_bytes = 0>
  using Row = RegisterRow<Element, shape, config, Group, RegisterVector>;
};

}  // namespace tunesmith
