// Types shared by kernels and both platforms: integers, 16-bit floats as bits, raw vectors, cache hints.
#pragma once

namespace tunesmith {

using uint16 = unsigned short;
using uint32 = unsigned int;
using int64 = long long;
using uint64 = unsigned long long;

/// IEEE binary16 and bfloat16 as bits: no CUDA header is needed, and conversions are explicit.
struct f16 {
  uint16 bits;
};
struct bf16 {
  uint16 bits;
};

/// Raw bytes of one memory access: 1, 2, 4, 8 or 16, aligned to their size.
template <int bytes>
struct Bits;
template <>
struct Bits<1> {
  unsigned char word;
};
template <>
struct alignas(2) Bits<2> {
  uint16 word;
};
template <>
struct alignas(4) Bits<4> {
  uint32 word[1];
};
template <>
struct alignas(8) Bits<8> {
  uint32 word[2];
};
template <>
struct alignas(16) Bits<16> {
  uint32 word[4];
};

/// Cache behaviour of a load.
enum class LoadHint {
  plain,        ///< ld.global
  no_allocate,  ///< ld.global.nc.L1::no_allocate: read-only path; not for memory that the kernel writes
  streaming,    ///< ld.global.cs: likely used once
  evict_first,  ///< L2 evict_first policy (sm_80 and later)
  evict_last,   ///< L2 evict_last policy (sm_80 and later)
};

/// Cache behaviour of a store.
enum class StoreHint {
  plain,        ///< st.global
  streaming,    ///< st.global.cs
  evict_first,  ///< L2 evict_first policy (sm_80 and later)
};

}  // namespace tunesmith
