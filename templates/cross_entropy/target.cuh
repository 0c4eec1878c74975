// The logit of a row's target, asked for long before it is looked at.
#pragma once

#include "cross_entropy/cross_entropy.cuh"

namespace tunesmith {

/// As it lies in memory until value(): what converts it would wait for it.
template <typename Input>
struct TargetElement {
  Packed<Input, 1> element = {};

  /// Asks for it, if `wanted`: predicated, so that the code around it stays in one piece.
  __device__ __forceinline__ void ask(bool wanted, const Input* address) {
    element.access[0] = load_if<static_cast<int>(sizeof(Input)), LoadHint::plain>(wanted, address, element.access[0]);
  }
  /// As the loss sees it; -inf unless the row has one.
  template <const CrossEntropyOptions& options>
  __device__ __forceinline__ float value(const LogitScale<options>& scale, bool exists) const {
    float values[1];
    element.unpack(values);
    return exists ? scale(values[0]) : Maximum::identity();
  }
};

}  // namespace tunesmith
