// Replaces the target's logit in a resident row.
#pragma once

#include "row/row.cuh"

namespace tunesmith {

/// The bits of one element of a vector, known at run time: a mask for each word. Replaces it without unpacking the others.
template <typename T, int count>
struct ElementBits {
  using Vector = Packed<T, count>;
  static constexpr int words = Vector::bytes < 4 ? 1 : Vector::bytes / 4;
  uint32 mask[words];

  __device__ __forceinline__ explicit ElementBits(int element) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      if constexpr (sizeof(T) >= 4)
        mask[i] = i / (static_cast<int>(sizeof(T)) / 4) == element ? 0xffffffffu : 0u;
      else
        mask[i] = i == element / 2 ? 0xffffu << (element % 2 * 16) : 0u;
    }
  }

  /// Replaces the element of `vector` by -inf: an operation for each word.
  __device__ __forceinline__ void become_minus_infinity(Vector& vector) const {
    Compute<T> values[count];
#pragma unroll
    for (int j = 0; j < count; ++j) values[j] = Maximum::identity();
    Vector lowest;
    lowest.pack_from(values);
    if constexpr (Vector::bytes < 4) {
      vector = lowest;
    } else {
#pragma unroll
      for (int i = 0; i < words; ++i) {
        constexpr int per_access = Vector::access_bytes / 4;
        uint32& word = vector.access[i / per_access].word[i % per_access];
        word = (word & ~mask[i]) | (lowest.access[i / per_access].word[i % per_access] & mask[i]);
      }
    }
  }
};

/// Replaces the element at `position` of a row by -inf; a negative position is ignored. Columns count from the row's shift.
/// Call it between load() and largest(). Returns true in the thread that owns the element.
template <typename Element, int group_size, typename ResidentRow>
__device__ __forceinline__ bool take_out(ResidentRow& resident, int64 position, int thread_rank) {
  constexpr int vector = ResidentRow::vector;
  const int whole = static_cast<int>(position) / vector;
  const bool mine = position >= 0 && whole % group_size == thread_rank;
  const int at = mine ? whole / group_size : -1;
  const int element = static_cast<int>(position) % vector;
  const ElementBits<Element, vector> bits(element);
#pragma unroll
  for (int i = 0; i < ResidentRow::in_registers; ++i) {
    if (i == at) bits.become_minus_infinity(resident.registers[i].packed);
    resident.registers[i].convert();
  }
  if constexpr (ResidentRow::vectors > ResidentRow::in_registers)
    resident.taken_out = at >= ResidentRow::in_registers ? at * vector + element : -1;
  return mine;
}

}  // namespace tunesmith
