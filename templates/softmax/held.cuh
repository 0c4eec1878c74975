// Softmax and log_softmax, one read and one write: the row stays on the chip, in the registers and shared memory of the
// threads that share it, while the maximum and then the sum are reduced. Who shares a row makes the variants: lanes of a
// warp, a block, a cluster of blocks, or blocks of a cooperative grid. Blocks that share a row each take the sum relative to
// their own maximum and meet once.
#pragma once

#include "row/hybrid_row.cuh"
#include "row/mask.cuh"
#include "softmax/log_softmax.cuh"
#include "softmax/meeting.cuh"

namespace tunesmith {

/// `Types` has Input and Output; `Storage`: where the row waits; `Meeting`: SoftmaxMeeting for teams of several blocks.
template <typename Types, const RowShape& shape, const HeldConfig& config, typename Team, typename Storage, typename Meeting>
__device__ __forceinline__ void softmax_held(const RowParams& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Features = RowFeatures<shape>;
  using Exponential = typename Features::Arithmetic::Exponential;
  // A sum of a 16-bit element and its mask has more digits than 16 bits hold.
  using Waits = typename If<Features::Mask::adds, float, Input>::type;
  constexpr int vector = shape.vector;
  using Waiting = typename Storage::template Row<Waits, shape, config, Team>;
  constexpr int vectors = Waiting::vectors;

  const float outside = Maximum::identity();
  Team team(params.workspace, params.groups);
  const int member = team.member();
  Waiting waiting(config.shared_vectors > 0 ? dynamic_shared() : nullptr);

  over_rows(team, params.rows, [&](int64 index, bool exists) {
    const Row<shape> row(params, index, static_cast<const Input*>(nullptr));
    const Input* const x = row.template input<Input>(params, 0);
    if constexpr (!Features::Mask::present) {
      waiting.load(x, row.seen, member, outside);
    } else {
#pragma unroll
      for (int i = 0; i < vectors; ++i) {
        float values[vector];
        load_of_row<Input, shape, config.load, Team::members>(x, i, member, row.seen, outside).unpack(values);
        Features::Mask::template apply<shape>(params, row, column_of<shape, Team::members>(i, member),
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
    typename Features::Arithmetic::template RunningSum<vectors> running_sum;
    float ties = 0.0f;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      float values[vector];
      waiting.get(i, values);
      running_sum.include(Features::Function::template sum_of_exponentials<shape>(exponential, part.largest, ties, values));
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
    if constexpr (Team::distant) rescale = Meeting::template meet<shape>(team, params, exponential, nothing, part);

    typename Features::Function::template Result<shape> result(params, part.largest, {part.sum, part.ties}, rescale);
    if constexpr (Team::distant) result.under(exponential);
    if (!exists) return;
    Output* const y = row.template output<Output>(params);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      float values[vector];
      waiting.get(i, values);
      if constexpr (shape.logarithm) {
        result.template compute<Team::distant>(values);
      } else {
        if (Waiting::exact(i))
          result.template finish<Team::distant>(values);
        else
          result.template compute<Team::distant>(values);
      }
      Features::Edges::template store<Output, vector, config.store>(y, column_of<shape, Team::members>(i, member), row.all,
                                                                    inside_row<shape, Team::members>(i), values);
    }
  });
}

}  // namespace tunesmith
