// Multiplies an array with a factor in device memory, in place. If the factor is 1, the kernel ends at once: the host need
// not know the factor to save the pass. A fixed grid strides over the array, so that ending at once takes microseconds.
#pragma once

#include "device/edges.cuh"
#include "device/group.cuh"
#include "scale/params.cuh"

namespace tunesmith {

struct ScaleConfig {
  int threads;
  int vectors;  ///< 16-byte vectors that a thread has in flight
};

/// Products are computed in float32 and rounded once: the factor may exceed the range of the elements.
template <typename Element, const ScaleConfig& config>
__device__ __forceinline__ void scale(const ScaleParams& params) {
  const float factor = *params.factor;
  if (factor == 1.0f) return;
  constexpr int vector = 16 / static_cast<int>(sizeof(Element));
  constexpr int64 step = int64{config.threads} * config.vectors * vector;
  auto* const x = static_cast<Element*>(params.x);
  const Range all = {0, params.elements};
  for (int64 begin = block_index() * step; begin < params.elements; begin += params.blocks * step) {
    const bool inside = begin + step <= params.elements;
    const auto column = [&](int i) { return begin + (int64{i} * config.threads + thread_index()) * vector; };
    Packed<Element, vector> loaded[config.vectors];
#pragma unroll
    for (int i = 0; i < config.vectors; ++i)
      loaded[i] = BranchedEdges::load<Element, vector, LoadHint::plain>(x, column(i), all, inside, 0.0f);
#pragma unroll
    for (int i = 0; i < config.vectors; ++i) {
      float values[vector];
      loaded[i].unpack(values);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[j] = multiply(values[j], factor);
      BranchedEdges::store<Element, vector, StoreHint::plain>(x, column(i), all, inside, values);
    }
  }
}

}  // namespace tunesmith
