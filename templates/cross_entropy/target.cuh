// The logit of a row's target, known long before its use.
#pragma once

#include "cross_entropy/cross_entropy.cuh"

namespace tunesmith {

/// Stays in the layout of global memory until value(), because a conversion would wait for the load.
template <typename Input>
struct TargetElement {
  Packed<Input, 1> element = {};

  /// Loads it if `wanted`: predicated, without a branch.
  __device__ __forceinline__ void ask(bool wanted, const Input* address) {
    element.access[0] = load_if<static_cast<int>(sizeof(Input)), LoadHint::plain>(wanted, address, element.access[0]);
  }
  /// Returns the scaled and capped logit; -inf if the row has no target.
  template <const CrossEntropyOptions& options>
  __device__ __forceinline__ Compute<Input> value(const LogitScale<options>& scale, bool exists) const {
    Compute<Input> values[1];
    element.unpack(values);
    return exists ? scale(values[0]) : Maximum::identity();
  }
};

}  // namespace tunesmith
