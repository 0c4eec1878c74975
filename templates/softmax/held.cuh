// Softmax and log_softmax, one read and one write: the row waits on the chip, in the registers and shared memory of its
// team, while the maximum and then the sum are reduced over it. The team makes the variants: lanes of a warp, a block, a
// cluster of blocks, or blocks of a cooperative grid. Where a team is of several blocks, which are far from each other, each
// takes the sum under its own maximum, and all meet once.
#pragma once

#include "row/waiting_row.cuh"
#include "softmax/running.cuh"

namespace tunesmith {

/// `Types` has Input, Output and MaskElement.
template <typename Types, const RowShape& shape, const HeldConfig& config, typename Team>
__device__ __forceinline__ void softmax_held(const RowParams& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using MaskElement = typename Types::MaskElement;
  using Exponential = typename ArithmeticFor<Output>::Exponential;
  // A sum of a 16-bit element and its mask has more digits than 16 bits hold.
  using Waits = typename If<(shape.mask == Mask::add), float, Input>::type;
  constexpr int vector = shape.vector;
  using Waiting = WaitingRow<Waits, shape, config, Team>;
  constexpr int vectors = Waiting::vectors;

  const float outside = Maximum::identity();
  Team team(params.workspace, params.groups);
  const int member = team.member();
  Waiting waiting(config.shared_vectors > 0 ? dynamic_shared() : nullptr);

  over_rows(team, params.rows, [&](int64 index, bool exists) {
    const Row<shape> row(params, index, static_cast<const Input*>(nullptr));
    const Input* const x = row.template input<Input>(params, 0);
    if constexpr (shape.mask == Mask::none) {
      waiting.load(x, row.seen, member, outside);
    } else {
#pragma unroll
      for (int i = 0; i < vectors; ++i) {
        float values[vector];
        load_of_row<Input, shape, config.load, Team::members>(x, i, member, row.seen, outside).unpack(values);
        apply_mask<MaskElement, shape>(params, row, column_of<shape, Team::members>(i, member),
                                       !ragged<shape> && inside_row<shape, Team::members>(i), outside, values);
        waiting.put(i, values);
      }
    }

    team.start();
    using Local = typename If<Team::distant, BlockTeam<Team::threads>, Team>::type;
    Local local(nullptr, 0);
    SoftmaxPart part;
    part.largest = local.template reduce<0>(waiting.largest(), Maximum());

    // A block of a distant team may have seen nothing but -inf: its exponentials are zeros then, under any maximum but that.
    const bool nothing = Team::distant && part.largest == Maximum::identity();
    const Exponential exponential(nothing ? 0.0f : part.largest, exponent_scale<shape>(params));
    typename ArithmeticFor<Output>::template RunningSum<vectors> running_sum;
    float ties = 0.0f;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      float values[vector];
      waiting.get(i, values);
      running_sum.include(sum_of_exponentials<shape>(exponential, part.largest, ties, values));
      if (Waiting::exact(i) && !shape.logarithm) waiting.put(i, values);
    }
    if constexpr (shape.logarithm) {
      const SoftmaxSums sums = local.template reduce<1>(SoftmaxSums{running_sum.value(), ties}, SumOfEach());
      part.sum = sums.first;
      part.ties = sums.second;
    } else {
      part.sum = local.template reduce<1>(running_sum.value(), Sum());
      part.ties = 0.0f;
    }

    SplitPower rescale = {1.0f, 1.0f};  // of the exponentials that wait
    if constexpr (Team::distant) {
      RunningSoftmax<Output, shape> all(params);
      team.exchange(part, [&](const SoftmaxPart& other) { all.include(other); });
      part = combine_block<Team::threads>(all);
      if (!nothing) rescale = exponential.split_rescale_to(Exponential(part.largest, exponent_scale<shape>(params)));
    }

    SoftmaxResult<Output, shape> result(params, part.largest, {part.sum, part.ties}, rescale);
    if constexpr (Team::distant) result.under(exponential);
    if (!exists) return;
    Output* const y = row.template output<Output>(params);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      float values[vector];
      waiting.get(i, values);
      if (Waiting::exact(i) && !shape.logarithm)
        result.template finish<Team::distant>(values);
      else
        result.template compute<Team::distant>(values);
      store_vector<Output, vector, config.store, edges_of_all<shape>>(y, column_of<shape, Team::members>(i, member), row.all,
                                                                      inside_row<shape, Team::members>(i), values);
    }
  });
}

}  // namespace tunesmith
