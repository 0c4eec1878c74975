// Takes the target's logit out of a resident row: its value is returned, and -inf replaces it.
#pragma once

#include "cross_entropy/target.cuh"
#include "device/group.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// The bits of an element: one word, or two for f64. 16 bits are in either half of the word.
template <typename T>
struct FoundElement {
  static constexpr int words = sizeof(T) > 4 ? 2 : 1;
  uint32 word[words] = {};

  __device__ __forceinline__ Bits<sizeof(T)> bits() const {
    if constexpr (sizeof(T) == 2) return {static_cast<uint16>(word[0] | word[0] >> 16)};
    if constexpr (sizeof(T) == 4) return {{word[0]}};
    if constexpr (sizeof(T) == 8) return {{word[0], word[1]}};
  }
};

/// The bits of one element of a vector, known at run time: a mask for each word. Reads or replaces it without unpacking the
/// others.
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
      forget(mask[i]);  // or the compiler branches around the comparison of every element
    }
  }

  /// Adds the bits of the element of `vector` to `found`: an operation for each word.
  __device__ __forceinline__ void find(const Vector& vector, FoundElement<T>& found) const {
    if constexpr (Vector::bytes < 4) {
      found.word[0] = vector.access[0].word;
    } else {
      constexpr int per_access = Vector::access_bytes / 4;
#pragma unroll
      for (int i = 0; i < words; ++i)
        found.word[i % FoundElement<T>::words] |= vector.access[i / per_access].word[i % per_access] & mask[i];
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

/// Whether all threads of a group get the target's logit from the registers of the thread that has it. A second load would
/// wait for the target, and read short rows again from L2.
template <typename Group, typename ResidentRow>
constexpr bool finds_target = !Group::distant && ResidentRow::vectors == ResidentRow::in_registers;

/// Sends the bits of an element from one thread of a group to all of them.
template <typename Group, typename T>
struct Sender {};  // groups of several blocks have none
template <int block_threads, int lanes, typename T>
struct Sender<LaneGroup<block_threads, lanes>, T> {
  FoundElement<T> found;

  /// `owner`: the thread's rank in its group, the same for all lanes of the group.
  __device__ __forceinline__ void send(const FoundElement<T>& own, bool, int owner) {
#pragma unroll
    for (int i = 0; i < FoundElement<T>::words; ++i)
      found.word[i] = lanes == 1 ? own.word[i] : shuffle(own.word[i], lane_index() / lanes * lanes + owner);
  }
  __device__ __forceinline__ FoundElement<T> received() const { return found; }
};
template <int threads, typename T>
struct Sender<BlockGroup<threads>, T> {
  static __device__ __forceinline__ uint32* words() {
    TUNESMITH_SHARED(uint32, target_words, FoundElement<T>::words);
    return target_words;
  }

  /// A barrier must follow before received(), and another one before the next send().
  __device__ __forceinline__ void send(const FoundElement<T>& own, bool is_owner, int) {
#pragma unroll
    for (int i = 0; i < FoundElement<T>::words; ++i)
      if (is_owner) words()[i] = own.word[i];
  }
  __device__ __forceinline__ FoundElement<T> received() const {
    FoundElement<T> found;
#pragma unroll
    for (int i = 0; i < FoundElement<T>::words; ++i) found.word[i] = words()[i];
    return found;
  }
};
template <typename T>
struct Sender<BlockGroup<32>, T> : Sender<LaneGroup<32, 32>, T> {};  // no barrier in its reductions

/// Returns the rank of the thread that has the element at this position, or of any thread for a negative one.
template <int group_size, int vector>
__device__ __forceinline__ int owner_of(int64 position) {
  return static_cast<int>(static_cast<uint32>(position) / vector % group_size);
}

/// Replaces the element at `position` of a row by -inf and adds its bits to `found`; a negative position is ignored. Columns
/// count from the row's shift. Call it between load() and largest(). Returns true in the thread that owns the element.
template <typename Element, int group_size, typename ResidentRow>
__device__ __forceinline__ bool take_out(ResidentRow& resident, int64 position, int thread_rank,
                                         FoundElement<Element>& found) {
  constexpr int vector = ResidentRow::vector;
  const auto at_element = static_cast<uint32>(position);  // a negative position is beyond every row
  const uint32 whole = at_element / vector;
  const int at = static_cast<int>(whole % group_size) == thread_rank ? static_cast<int>(whole / group_size) : -1;
  const int element = static_cast<int>(at_element % vector);
  const ElementBits<Element, vector> bits(element);
#pragma unroll
  for (int i = 0; i < ResidentRow::in_registers; ++i) {
    if (i == at) {
      bits.find(resident.registers[i].packed, found);
      bits.become_minus_infinity(resident.registers[i].packed);
    }
    resident.registers[i].convert();
  }
  if constexpr (ResidentRow::vectors > ResidentRow::in_registers)
    resident.taken_out = at >= ResidentRow::in_registers && position >= 0 ? at * vector + element : -1;
  return at >= 0 && position >= 0;
}

}  // namespace tunesmith
