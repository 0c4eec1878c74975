// Elements of user arrays as dual numbers, over which score_mod is compiled a third time: its derivative by one of the
// elements that it reads. A call differentiates by the element of read number `wanted`, and counts the reads.
#pragma once

#include "attention_backward/dual.cuh"

namespace dual_numbers {

/// The reads of one call of score_mod.
struct Reads {
  int wanted, count;
  tunesmith::int64 element;  ///< that the wanted one reads
};

/// An array that gets a gradient. `first`: number of its first element; elements of all such arrays are numbered together.
template <typename Element>
struct Elements {
  const Element* values;
  tunesmith::int64 first;
  Reads* reads;

  __device__ __forceinline__ Dual operator[](tunesmith::int64 index) const {
    const bool wanted = reads->count++ == reads->wanted;
    if (wanted) reads->element = first + index;
    return {tunesmith::to_float(values[index]), wanted ? 1.0f : -0.0f};
  }
  __device__ __forceinline__ Dual operator*() const { return (*this)[0]; }
  __device__ __forceinline__ Elements operator+(tunesmith::int64 offset) const {
    return {values + offset, first + offset, reads};
  }
};

/// The derivative of score_mod by the element of one read, if there are more reads than its number.
struct Term {
  float derivative;
  tunesmith::int64 element;
  int reads;
};

}  // namespace dual_numbers
