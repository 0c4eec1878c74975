// Types shared by kernels and both platforms: 16-bit floats as bits, raw vectors, cache hints.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// IEEE binary16 and bfloat16 as bits: no CUDA header is needed, and conversions are explicit.
struct f16 {
  uint16 bits;
};
struct bf16 {
  uint16 bits;
};

/// Raw bytes of one memory access: 1, 2, 4, 8 or 16, aligned to their size.
template <int bytes>
struct alignas(bytes) Bits {
  uint32 word[bytes / 4];
};
template <>
struct Bits<1> {
  unsigned char word;
};
template <>
struct alignas(2) Bits<2> {
  uint16 word;
};

/// Cache behaviour of a load.
enum class LoadHint {
  plain,        ///< ld.global
  no_allocate,  ///< ld.global.nc.L1::no_allocate: read-only path; not for memory that the kernel writes
  streaming,    ///< ld.global.cs: likely used once
  stay_in_l1,   ///< ld.global.L1::evict_last: read again by the rows that follow
  read_only,    ///< ld.global.nc.L1::evict_last: the same of memory that the kernel does not write
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
