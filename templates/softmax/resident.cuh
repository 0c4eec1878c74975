// Softmax and log_softmax in one read and one write: a cooperative group keeps the row in registers and shared memory while
// it reduces the maximum and then the sum. The group is part of a warp, a block, a cluster, or several blocks of a
// cooperative grid. If several blocks share a row, each one sums relative to its own maximum, and they exchange partials
// once.
#pragma once

#include "row/mask.cuh"
#include "row/schedules/hybrid_row.cuh"
#include "softmax/exchange.cuh"
#include "softmax/log_softmax.cuh"

namespace tunesmith {

/// `Types` has Input and Output; `Storage`: where the row resides; `Exchange`: SoftmaxExchange for groups of several blocks.
template <typename Types, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          typename Exchange>
__device__ __forceinline__ void softmax_resident(const RowParams& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Features = RowFeatures<shape>;
  using Exponential = typename Features::Arithmetic::Exponential;
  // The sum of a 16-bit element and its mask does not fit 16 bits.
  using Stored = typename If<Features::Mask::adds, Number<shape>, Input>::type;
  constexpr int vector = shape.vector;
  using ResidentRow = typename Storage::template Row<Stored, shape, config, Group>;
  constexpr int vectors = ResidentRow::vectors;

  const Number<shape> outside = Maximum::identity();
  Group group(params.workspace, params.groups);
  const int thread_rank = group.thread_rank();
  ResidentRow resident(config.shared_vectors > 0 ? dynamic_shared() : nullptr);

  over_rows(group, params.rows, [&](int64 index, bool exists) {
    const Row<shape> row(params, index, static_cast<const Input*>(nullptr));
    const Input* const x = row.template input<Input>(params, 0);
    if constexpr (!Features::Mask::present) {
      resident.load(x, row, thread_rank, outside);
    } else {
      const typename Features::Mask::template Of<shape> mask(params, row);
      if constexpr (leaves_early<shape> || config.sized_by_row) resident.end = static_cast<int>(row.all.end);
#pragma unroll
      for (int i = 0; i < vectors; ++i) {
        if (row_ends<shape, config, Group::group_size, leaves_early<shape>>(row.all.end, i)) break;
        Number<shape> values[vector];
        load_of_row<Input, shape, config.load, Group::group_size>(x, i, thread_rank, row.seen, outside).unpack(values);
        mask.apply(column_of<shape, Group::group_size>(i, thread_rank),
                   !ragged<shape> && inside_row<shape, Group::group_size>(i), outside, values);
        resident.put(i, values);
      }
    }

    group.start();
    const auto later = RowFeatures<shape>::Prefetch::of(group, params, index);
    later.template start<Input, config.load>(params, params.input[0], params.input_stride[0]);
    using Local = typename If<Group::distant, BlockGroup<Group::threads>, Group>::type;
    Local local(nullptr, 0);
    SoftmaxPartial<shape> part;
    part.largest = local.template reduce<0>(resident.largest(), Maximum());

    // All elements of this block may be -inf although the row has others: any finite maximum makes their exponentials 0.
    const bool nothing = Group::distant && part.largest == Maximum::identity();
    const Exponential exponential(nothing ? Number<shape>(0) : part.largest, exponent_scale<shape>(params));
    typename SumOfVectors<shape, typename Features::Arithmetic::template RunningSum<vectors>>::type running_sum;
    Number<shape> max_count = 0.0f;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0)>(row.all.end, i)) break;
      Number<shape> values[vector];
      resident.get(i, values);
      running_sum.include(
          Features::Function::template sum_of_exponentials<shape>(exponential, part.largest, max_count, values));
      if (ResidentRow::exact(i) && !shape.logarithm) resident.put(i, values);
    }
    if constexpr (shape.logarithm) {
      const SoftmaxSums<shape> sums =
          local.template reduce<1>(SoftmaxSums<shape>{running_sum.value(), max_count}, SumOfEach<Number<shape>>());
      part.sum = sums.first;
      part.max_count = sums.second;
    } else {
      part.sum = local.template reduce<1>(running_sum.value(), Sum());
      part.max_count = 0.0f;
    }

    SplitPowerOf<Number<shape>> rescale = {1.0f, 1.0f};  // of the resident exponentials
    if constexpr (Group::distant)
      rescale = Exchange::template combine_blocks<shape>(group, params, exponential, nothing, part);

    typename Features::Function::template Result<shape> result(params, part.largest, {part.sum, part.max_count}, rescale);
    if constexpr (Group::distant) result.under(exponential);
    if (!exists) return;
    Output* const y = row.template output<Output>(params);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0)>(row.all.end, i)) break;
      Number<shape> values[vector];
      resident.get(i, values);
      if constexpr (shape.logarithm) {
        result.template compute<Group::distant>(values);
      } else {
        if (ResidentRow::exact(i))
          result.template finish<Group::distant>(values);
        else
          result.template compute<Group::distant>(values);
      }
      store_of_row<Output, shape, config.store, Group::group_size>(y, i, thread_rank, row, values);
    }
  });
}

}  // namespace tunesmith
