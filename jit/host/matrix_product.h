// The arithmetic of a warpgroup's product (wgmma) for one thread.
#pragma once

#include <cstddef>

#include "jit/host/shared_memory.h"
#include "jit/host/tunesmith_host_abi.h"

namespace tunesmith::host {

/// Computes the accumulators of thread `thread` of the block, from operands in the block's shared memory. Returns nullptr,
/// or what is wrong with a descriptor. Products of 16-bit floats and their sum with the accumulator are computed in float64
/// and rounded once; tensor cores align the terms to the largest and truncate.
const char* multiply(const tunesmith_host_abi::MatrixProduct& product, const SharedMemory& memory, std::size_t block,
                     std::uint32_t thread);

}  // namespace tunesmith::host
