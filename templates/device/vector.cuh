// Vectors of elements: as few memory accesses as possible, converted to float32 for computation (double stays double).
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
/// Returns 0 for false and 1 for true.
__device__ __forceinline__ float to_float(u8 value) { return value.bits != 0 ? 1.0f : 0.0f; }

/// The type in which elements are computed: float, or double for double (row/double.cuh).
template <typename Element>
using Compute = typename If<is_same<Element, double>, double, float>::type;

/// `count` consecutive elements of type T in registers, in the layout of memory.
template <typename T, int count>
struct Packed {
  static constexpr int bytes = count * static_cast<int>(sizeof(T));
  static constexpr int access_bytes = bytes < 16 ? bytes : 16;
  static constexpr int accesses = bytes / access_bytes;
  static_assert(bytes == access_bytes * accesses && (access_bytes & (access_bytes - 1)) == 0,
                "a vector is 1, 2, 4, 8 or a multiple of 16 bytes");

  Bits<access_bytes> access[accesses];

  __device__ __forceinline__ void unpack(Compute<T> (&values)[count]) const {
    if constexpr (count == 1 && bytes < 4) {
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

  /// Stops the compiler from keeping values computed from these elements for a later, equal computation.
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

  __device__ __forceinline__ void pack_from(const Compute<T> (&values)[count]) {
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

/// Maximum of 16-bit elements, two at a time and without conversion.
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

/// The existing elements of a row: [begin, end), counted from a vector-aligned address. `begin` is 0 unless the row is not
/// aligned.
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

/// Loads the vector at `column`, which must be within the row.
template <typename T, int count, LoadHint hint>
__device__ __forceinline__ Packed<T, count> load_whole(const T* row, int64 column) {
  Packed<T, count> vector;
#pragma unroll
  for (int i = 0; i < vector.accesses; ++i) {
    const auto* address = reinterpret_cast<const char*>(row + column) + i * vector.access_bytes;
    vector.access[i] = load<Packed<T, count>::access_bytes, hint>(address);
  }
  return vector;
}
template <typename T, int count, StoreHint hint>
__device__ __forceinline__ void store_whole(T* row, int64 column, const Compute<T> (&values)[count]) {
  Packed<T, count> vector;
  vector.pack_from(values);
#pragma unroll
  for (int i = 0; i < vector.accesses; ++i) {
    auto* address = reinterpret_cast<char*>(row + column) + i * vector.access_bytes;
    store<Packed<T, count>::access_bytes, hint>(address, vector.access[i]);
  }
}

/// Loads the vector at `column` if it is within the range, otherwise returns `outside`; without a branch.
template <typename T, int count, LoadHint hint>
__device__ __forceinline__ Packed<T, count> load_if_whole(const T* row, int64 column, Range range, Compute<T> outside) {
  Packed<T, count> vector;
  Compute<T> values[count];
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = outside;
  vector.pack_from(values);
  const bool whole = range.holds<count>(column);
#pragma unroll
  for (int i = 0; i < vector.accesses; ++i) {
    const auto* address = reinterpret_cast<const char*>(row + column) + i * vector.access_bytes;
    vector.access[i] = load_if<Packed<T, count>::access_bytes, hint>(whole, address, vector.access[i]);
  }
  return vector;
}

// Policies for vectors at the ends of a range have
//   load<T, count, hint>()   loads [column, column + count); elements outside the range read as `outside`
//   store<T, count, hint>()  stores the elements within the range
// Both take `inside`: true if the vector is known to be within the range.

/// No vector crosses an end.
struct WholeVectors {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    if (!inside) return load_if_whole<T, count, hint>(row, column, range, outside);
    return load_whole<T, count, hint>(row, column);
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    if (inside || range.holds<count>(column)) store_whole<T, count, hint>(row, column, values);
  }
};

template <typename T>
__device__ __forceinline__ Compute<T> load_element(const T* address) {
  Packed<T, 1> element;
  element.access[0] = load<static_cast<int>(sizeof(T)), LoadHint::plain>(address);
  Compute<T> value[1];
  element.unpack(value);
  return value[0];
}

template <typename T>
__device__ __forceinline__ void store_element(T* address, Compute<T> value) {
  const Compute<T> values[1] = {value};
  Packed<T, 1> element;
  element.pack_from(values);
  store<static_cast<int>(sizeof(T)), StoreHint::plain>(address, element.access[0]);
}

}  // namespace tunesmith
