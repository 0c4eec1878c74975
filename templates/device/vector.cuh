// Vectors of elements: as few memory instructions as their size allows, unpacked to float32 where they are computed with.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

template <bool condition, typename Then, typename Else>
struct If {
  using type = Then;
};
template <typename Then, typename Else>
struct If<false, Then, Else> {
  using type = Else;
};
template <typename A, typename B>
constexpr bool is_same = false;
template <typename A>
constexpr bool is_same<A, A> = true;

/// An element of a boolean mask.
struct u8 {
  unsigned char bits;
};
/// 0 for false.
__device__ __forceinline__ float to_float(u8 value) { return value.bits != 0 ? 1.0f : 0.0f; }

/// `count` consecutive elements of type T as they lie in memory, held in registers.
template <typename T, int count>
struct Packed {
  static constexpr int bytes = count * static_cast<int>(sizeof(T));
  static constexpr int access_bytes = bytes < 16 ? bytes : 16;
  static constexpr int accesses = bytes / access_bytes;
  static_assert(bytes == access_bytes * accesses && (access_bytes & (access_bytes - 1)) == 0,
                "a vector is 1, 2, 4, 8 or a multiple of 16 bytes");

  Bits<access_bytes> access[accesses];

  __device__ __forceinline__ void unpack(float (&values)[count]) const {
    if constexpr (bytes == 1) {
      values[0] = to_float(T{access[0].word});
    } else if constexpr (bytes == 2 && sizeof(T) == 2) {
      values[0] = to_float(T{access[0].word});
    } else if constexpr (bytes == 2) {
      values[0] = to_float(T{static_cast<unsigned char>(access[0].word)});
      values[1] = to_float(T{static_cast<unsigned char>(access[0].word >> 8)});
    } else {
      constexpr int per_word = 4 / static_cast<int>(sizeof(T));
#pragma unroll
      for (int i = 0; i < accesses; ++i) {
#pragma unroll
        for (int j = 0; j < access_bytes / 4; ++j) {
          const uint32 word = access[i].word[j];
          const int at = (i * (access_bytes / 4) + j) * per_word;
          if constexpr (sizeof(T) == 4) {
            values[at] = float_of(word);
          } else if constexpr (sizeof(T) == 2) {
            values[at] = to_float(T{static_cast<uint16>(word)});
            values[at + 1] = to_float(T{static_cast<uint16>(word >> 16)});
          } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) values[at + k] = to_float(T{static_cast<unsigned char>(word >> (8 * k))});
          }
        }
      }
    }
  }

  /// Stops the compiler from keeping what was computed from these elements for a later, equal computation.
  __device__ __forceinline__ void forget_uses() {
    if constexpr (bytes == 2) {
      forget(access[0].word);
    } else {
#pragma unroll
      for (int i = 0; i < accesses; ++i)
#pragma unroll
        for (int j = 0; j < access_bytes / 4; ++j) forget(access[i].word[j]);
    }
  }

  __device__ __forceinline__ void pack_from(const float (&values)[count]) {
    if constexpr (bytes == 2) {
      access[0].word = from_float<T>(values[0]).bits;
    } else {
#pragma unroll
      for (int i = 0; i < accesses; ++i) {
#pragma unroll
        for (int j = 0; j < access_bytes / 4; ++j) {
          const int at = (i * (access_bytes / 4) + j) * 4 / static_cast<int>(sizeof(T));
          if constexpr (sizeof(T) == 4)
            access[i].word[j] = bits_of(values[at]);
          else
            access[i].word[j] = pack<T>(values[at], values[at + 1]);
        }
      }
    }
  }
};

/// The largest of 16-bit elements, two at a time and without unpacking them.
template <typename T>
struct PackedMaximum {
  uint32 pair = is_same<T, f16> ? 0xfc00fc00u : 0xff80ff80u;  // -inf

  template <int count>
  __device__ __forceinline__ void include(const Packed<T, count>& vector) {
#pragma unroll
    for (int i = 0; i < vector.accesses; ++i)
#pragma unroll
      for (int j = 0; j < vector.access_bytes / 4; ++j) pair = maximum_or_nan_pair<T>(pair, vector.access[i].word[j]);
  }
  __device__ __forceinline__ float value() const {
    return maximum_or_nan(to_float(T{static_cast<uint16>(pair)}), to_float(T{static_cast<uint16>(pair >> 16)}));
  }
};
template <>
struct PackedMaximum<float> {};

/// The elements of a row that exist: [begin, end), counted from an address that vectors are aligned to. begin is 0 unless
/// the row starts between two vectors.
struct Range {
  int64 begin, end;
  template <int count>
  __device__ __forceinline__ bool holds(int64 column) const {
    return column >= begin && column + count <= end;
  }
  template <int count>
  __device__ __forceinline__ bool meets(int64 column) const {
    return column + count > begin && column < end;
  }
};

/// Bytes [column, column + count) one by one; those outside the range are 0.
template <int count>
__device__ __forceinline__ Packed<u8, count> load_bytes(const u8* row, int64 column, Range range) {
  Packed<u8, count> vector;
  if constexpr (count < 4) {
    uint32 word = 0;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (range.holds<1>(column + i)) word |= uint32{load<1, LoadHint::plain>(row + column + i).word} << (8 * i);
    vector.access[0].word = static_cast<decltype(vector.access[0].word)>(word);
  } else {
#pragma unroll
    for (int j = 0; j < count / 4; ++j) {
      uint32 word = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (range.holds<1>(column + 4 * j + i))
          word |= uint32{load<1, LoadHint::plain>(row + column + 4 * j + i).word} << (8 * i);
      vector.access[0].word[j] = word;
    }
  }
  return vector;
}

/// load_vector() without a branch; `by_element`: of vectors across an end of the range the elements inside it.
template <typename T, int count, LoadHint hint, bool by_element>
__device__ __forceinline__ void load_straight(const T* row, int64 column, Range range, float outside,
                                              Packed<T, count>& vector) {
  float values[count];
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = outside;
  vector.pack_from(values);
  const bool whole = range.holds<count>(column);
#pragma unroll
  for (int i = 0; i < vector.accesses; ++i) {
    const auto* address = reinterpret_cast<const char*>(row + column) + i * vector.access_bytes;
    vector.access[i] = load_if<Packed<T, count>::access_bytes, hint>(whole, address, vector.access[i]);
  }
  if constexpr (by_element && count > 1) {
    constexpr int bytes = static_cast<int>(sizeof(T));
    constexpr int per_word = 4 / bytes;
    // The elements to ask for, as small numbers: comparisons of 64 bits for each would be branched around.
    const int64 before = range.begin - column, after = range.end - column;
    const int from = whole || before >= count ? count : (before > 0 ? static_cast<int>(before) : 0);
    const int to = after >= count ? count : (after > 0 ? static_cast<int>(after) : 0);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      uint32& word = vector.access[i / (Packed<T, count>::access_bytes / bytes)]
                         .word[i / per_word % (Packed<T, count>::access_bytes / 4)];
      const bool there = static_cast<bool>(static_cast<int>(i >= from) & static_cast<int>(i < to));
      if constexpr (bytes == 4) {
        word = load_if<4, hint>(there, row + column + i, Bits<4>{{word}}).word[0];
      } else {
        const int shift = i % per_word * 16;
        const uint32 kept = word & (0xffff0000u >> shift);
        const auto old = static_cast<uint16>(word >> shift);
        word = kept | uint32{load_if<2, hint>(there, row + column + i, Bits<2>{old}).word} << shift;
      }
    }
  }
}

/// How vectors may lie across the ends of a range.
enum class Edges {
  none,      ///< they do not: each is inside or outside
  straight,  ///< few may: their elements are asked for one by one without a branch, while other loads are on their way
  branch,    ///< many may: elements one by one behind a branch, which code for all of them would be too long for
};

/// Loads elements [column, column + count); those outside the range read as `outside` (of a mask: as false). A vector within
/// the range is one access (or a few of 16 bytes); only vectors at the ends go element by element. `inside`: the caller
/// knows that the vector is within the range, and nothing is asked.
template <typename T, int count, LoadHint hint, Edges edges = Edges::branch>
__device__ __forceinline__ Packed<T, count> load_vector(const T* row, int64 column, Range range, bool inside,
                                                        float outside) {
  Packed<T, count> vector;
  if constexpr (edges != Edges::branch) {
    if (!inside) {
      load_straight<T, count, hint, edges == Edges::straight>(row, column, range, outside, vector);
      return vector;
    }
  }
  if (inside || range.holds<count>(column)) {
#pragma unroll
    for (int i = 0; i < vector.accesses; ++i) {
      const auto* address = reinterpret_cast<const char*>(row + column) + i * vector.access_bytes;
      vector.access[i] = load<Packed<T, count>::access_bytes, hint>(address);
    }
  } else if constexpr (sizeof(T) == 1) {
    vector = load_bytes<count>(row, column, range);
  } else {
    float values[count];
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = outside;
    if (range.meets<count>(column)) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        if (range.holds<1>(column + i)) {
          Packed<T, 1> element;
          element.access[0] = load<static_cast<int>(sizeof(T)), hint>(row + column + i);
          float value[1];
          element.unpack(value);
          values[i] = value[0];
        }
      }
    }
    vector.pack_from(values);
  }
  return vector;
}

/// Stores the elements of [column, column + count) that lie within the range.
template <typename T, int count, StoreHint hint, Edges edges = Edges::branch>
__device__ __forceinline__ void store_vector(T* row, int64 column, Range range, bool inside, const float (&values)[count]) {
  if (inside || range.holds<count>(column)) {
    Packed<T, count> vector;
    vector.pack_from(values);
#pragma unroll
    for (int i = 0; i < vector.accesses; ++i) {
      auto* address = reinterpret_cast<char*>(row + column) + i * vector.access_bytes;
      store<Packed<T, count>::access_bytes, hint>(address, vector.access[i]);
    }
  } else if constexpr (edges != Edges::none) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (range.holds<1>(column + i)) {
        Packed<T, 1> element;
        const float value[1] = {values[i]};
        element.pack_from(value);
        store<static_cast<int>(sizeof(T)), hint>(row + column + i, element.access[0]);
      }
    }
  }
}

template <typename T>
__device__ __forceinline__ float load_element(const T* address) {
  Packed<T, 1> element;
  element.access[0] = load<static_cast<int>(sizeof(T)), LoadHint::plain>(address);
  float value[1];
  element.unpack(value);
  return value[0];
}

template <typename T>
__device__ __forceinline__ void store_element(T* address, float value) {
  const float values[1] = {value};
  Packed<T, 1> element;
  element.pack_from(values);
  store<static_cast<int>(sizeof(T)), StoreHint::plain>(address, element.access[0]);
}

}  // namespace tunesmith
