// A vector of a row while it waits between the row's load and its store, in registers or in shared memory. All kinds offer
// the same steps, in this order: hold, largest, center, raise (to exponentials), results.
#pragma once

#include "device/exponential.cuh"
#include "softmax/softmax.cuh"

namespace tunesmith {

/// As in memory: half the registers for 16-bit elements, which are unpacked, and raised, anew in each step.
template <typename Input, int vector, Registers form>
struct WaitingVector {
  Packed<Input, vector> packed;

  __device__ __forceinline__ void hold(const Packed<Input, vector>& loaded) { packed = loaded; }
  __device__ __forceinline__ void get(float (&values)[vector]) {
    packed.forget_uses();  // else the unpacked row stays in registers from step to step, which is what packing avoids
    packed.unpack(values);
  }
  __device__ __forceinline__ float largest() {
    float values[vector];
    get(values);
    return largest_of(values);
  }
  template <typename Exponential>
  __device__ __forceinline__ void center_elements(const Exponential&) {}
  /// Returns the sum of the exponentials.
  template <typename Exponential>
  __device__ __forceinline__ float raise(const Exponential& exponential) {
    float values[vector];
    get(values);
    center(exponential, values);
    return exponentiate<vector>(exponential, values);
  }
  template <typename Exponential, typename Quotient>
  __device__ __forceinline__ void results(const Exponential& exponential, const Quotient& share, float (&values)[vector]) {
    get(values);
    center(exponential, values);
#pragma unroll
    for (int j = 0; j < vector; ++j) values[j] = share(exponential(values[j]));
  }
};

/// Converted once; the exponentials take their elements' places.
template <typename Input, int vector>
struct WaitingVector<Input, vector, Registers::float32> {
  float values_[vector];

  __device__ __forceinline__ void hold(const Packed<Input, vector>& loaded) { loaded.unpack(values_); }
  __device__ __forceinline__ float largest() const { return largest_of(values_); }
  template <typename Exponential>
  __device__ __forceinline__ void center_elements(const Exponential& exponential) {
#pragma unroll
    for (int j = 0; j < vector; ++j) values_[j] = exponential.centered(values_[j]);
  }
  template <typename Exponential>
  __device__ __forceinline__ float raise(const Exponential& exponential) {
    return exponentiate<vector>(exponential, values_);
  }
  template <typename Exponential, typename Quotient>
  __device__ __forceinline__ void results(const Exponential&, const Quotient& share, float (&values)[vector]) const {
#pragma unroll
    for (int j = 0; j < vector; ++j) values[j] = share(values_[j]);
  }
};

/// In shared memory, in a place that only this thread uses: no barrier is needed. Exponentials of float32 elements are
/// written back; those of 16-bit ones, which would not fit, are raised anew.
template <typename Input, int vector>
struct SharedVector {
  Packed<Input, vector>* place;

  __device__ __forceinline__ float largest() const {
    float values[vector];
    place->unpack(values);
    return largest_of(values);
  }
  template <typename Exponential>
  __device__ __forceinline__ float raise(const Exponential& exponential) const {
    float values[vector];
    place->unpack(values);
    center(exponential, values);
    const float sum = exponentiate<vector>(exponential, values);
    if constexpr (sizeof(Input) == 4) place->pack_from(values);
    return sum;
  }
  template <typename Exponential, typename Quotient>
  __device__ __forceinline__ void results(const Exponential& exponential, const Quotient& share,
                                          float (&values)[vector]) const {
    place->unpack(values);
    if constexpr (sizeof(Input) == 4) {
#pragma unroll
      for (int j = 0; j < vector; ++j) values[j] = share(values[j]);
    } else {
      center(exponential, values);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[j] = share(exponential(values[j]));
    }
  }
};

}  // namespace tunesmith
