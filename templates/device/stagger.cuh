// Staggered starts: memory reads for some blocks while others reduce, exchange or write.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// Delays a block by `nanoseconds` for each block that started on its multiprocessor before it. Blocks that start together
/// would load together, wait for each other's partials together and then store together, and memory would be idle in
/// between. Only the `blocks` that are resident at first wait: later ones start when an earlier block ends. Blocks are
/// assumed to be distributed over the multiprocessors one by one.
template <int blocks>
__device__ __forceinline__ void stagger_start(int nanoseconds) {
  const int64 before = block_index() / multiprocessors();
  if (before < blocks) wait_nanoseconds(static_cast<int>(before) * nanoseconds);
}

}  // namespace tunesmith
