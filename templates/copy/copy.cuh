// Copy baseline: copies one array, adds two, or only reads one. Each thread has `vectors` 16-byte loads in flight.
#pragma once

#include "copy/params.cuh"
#include "device/edges.cuh"
#include "device/group.cuh"
#include "device/reduce.cuh"

namespace tunesmith {

struct CopyConfig {
  int threads;
  int vectors;  ///< per thread
  LoadHint load;
  StoreHint store;
};

template <typename Element, int inputs, const CopyConfig& config>
__device__ __forceinline__ void copy(const CopyParams& params) {
  constexpr int vector = 16 / static_cast<int>(sizeof(Element));
  const Range all = {0, params.elements};
  const int64 begin = block_index() * (int64{config.threads} * config.vectors * vector);
  const bool inside = begin + int64{config.threads} * config.vectors * vector <= params.elements;
  const auto column = [&](int i) { return begin + (int64{i} * config.threads + thread_index()) * vector; };
  Packed<Element, vector> loaded[config.vectors][inputs];
#pragma unroll
  for (int i = 0; i < config.vectors; ++i) {
#pragma unroll
    for (int k = 0; k < inputs; ++k)
      loaded[i][k] = BranchedEdges::load<Element, vector, config.load>(static_cast<const Element*>(params.input[k]),
                                                                       column(i), all, inside, 0.0f);
  }
#pragma unroll
  for (int i = 0; i < config.vectors; ++i) {
    auto* const output = static_cast<Element*>(params.output);
    if (inside && inputs == 1) {  // copied without conversion
      store<16, config.store>(output + column(i), loaded[i][0].access[0]);
    } else {
      float values[vector];
      loaded[i][0].unpack(values);
      if constexpr (inputs == 2) {
        float others[vector];
        loaded[i][1].unpack(others);
#pragma unroll
        for (int j = 0; j < vector; ++j) values[j] = add(values[j], others[j]);
      }
      BranchedEdges::store<Element, vector, config.store>(output, column(i), all, inside, values);
    }
  }
}

/// Elements per block of the read-only baseline.
constexpr int read_tile = 8192;

/// Writes the maximum of the i-th read_tile elements to output[i], as float: the smallest output that proves all were read.
template <typename Element, const CopyConfig& config>
__device__ __forceinline__ void read_maxima(const CopyParams& params) {
  constexpr int vector = 16 / static_cast<int>(sizeof(Element));
  constexpr int step = config.threads * config.vectors * vector;
  static_assert(read_tile % step == 0, "a tile is a whole number of steps");
  const Range all = {0, params.elements};
  const int64 begin = block_index() * read_tile;
  if (begin >= params.elements) return;
  const bool inside = begin + read_tile <= params.elements;
  const auto* const input = static_cast<const Element*>(params.input[0]);
  float largest = Maximum::identity();
  for (int done = 0; done < read_tile; done += step) {
    Packed<Element, vector> loaded[config.vectors];
#pragma unroll
    for (int i = 0; i < config.vectors; ++i)
      loaded[i] = BranchedEdges::load<Element, vector, config.load>(
          input, begin + done + (int64{i} * config.threads + thread_index()) * vector, all, inside, Maximum::identity());
#pragma unroll
    for (int i = 0; i < config.vectors; ++i) {
      float values[vector];
      loaded[i].unpack(values);
      largest = maximum_or_nan(largest, largest_of(values));
    }
  }
  BlockGroup<config.threads> group(nullptr, 0);
  largest = group.template reduce<0>(largest, Maximum());
  if (thread_index() == 0) static_cast<float*>(params.output)[block_index()] = largest;
}

}  // namespace tunesmith
