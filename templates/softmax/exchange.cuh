// Combines the partial sums of the blocks that share a row.
#pragma once

#include "softmax/running.cuh"

namespace tunesmith {

/// For groups of several blocks (Group::distant).
struct SoftmaxExchange {
  /// Replaces this block's `part` by the whole row's. Returns the factor that rescales exponentials from this block's
  /// maximum to the row's. `nothing`: the block has no element above -inf.
  template <const RowShape& shape, typename Group, typename Exponential>
  static __device__ __forceinline__ auto combine_blocks(Group& group, const RowParams& params,
                                                        const Exponential& exponential, bool nothing,
                                                        SoftmaxPartial<shape>& part) {
    SplitPowerOf<Number<shape>> rescale = {1.0f, 1.0f};
    RunningSoftmax<shape> all(params);
    group.exchange(part, [&](const SoftmaxPartial<shape>& other) { all.include(other); });
    part = over_group(typename Group::Takers(nullptr, 0), all);
    if (!nothing) rescale = exponential.split_rescale_to(Exponential(part.largest, exponent_scale<shape>(params)));
    return rescale;
  }
};

}  // namespace tunesmith
