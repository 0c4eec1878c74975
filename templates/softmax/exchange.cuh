// How the blocks of a team that share a row bring their sums together.
#pragma once

#include "softmax/running.cuh"

namespace tunesmith {

/// For teams of several blocks (Group::distant).
struct SoftmaxExchange {
  /// `part` of this block becomes that of the whole row. Returns the factor of the exponentials that this block computed
  /// relative to its own maximum; `nothing`: the block found no element above -inf.
  template <const RowShape& shape, typename Group, typename Exponential>
  static __device__ __forceinline__ SplitPower combine_blocks(Group& group, const RowParams& params,
                                                              const Exponential& exponential, bool nothing,
                                                              SoftmaxPartial& part) {
    SplitPower rescale = {1.0f, 1.0f};
    RunningSoftmax<shape> all(params);
    group.exchange(part, [&](const SoftmaxPartial& other) { all.include(other); });
    part = combine_block<Group::threads>(all);
    if (!nothing) rescale = exponential.split_rescale_to(Exponential(part.largest, exponent_scale<shape>(params)));
    return rescale;
  }
};

}  // namespace tunesmith
