// Cross-entropy in one read of the logits and, for the gradient, one write: a cooperative group keeps the row in registers
// and shared memory, as in softmax/resident.cuh. It reduces the maximum logit, then the sum of exponentials without the
// target's; the target's logit is replaced by -inf right after the load.
#pragma once

#include "cross_entropy/outcome.cuh"
#include "cross_entropy/take_out.cuh"
#include "cross_entropy/target.cuh"
#include "row/schedules/hybrid_row.cuh"

namespace tunesmith {

/// `Types` has Input (of logits) and Output (of dlogits).
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void cross_entropy_resident(const ParamsOf<options>& params) {
  using Number = NumberOf<options>;
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Partial = PartialOf<options>;
  constexpr int vector = shape.vector;
  using ResidentRow = typename Storage::template Row<Input, shape, config, Group>;
  constexpr int vectors = ResidentRow::vectors;
  // Exponentials replace the resident logits if possible and if nothing needs the logits later.
  constexpr bool keeps_logits = !options.gradient || !LogitScale<options>::plain;

  if constexpr (options.reduced) let_next_kernel_start();
  Group group(params.row.workspace, params.row.groups);
  const int thread_rank = group.thread_rank();
  const LogitScale<options> scale(params);
  ResidentRow resident(config.shared_vectors > 0 ? dynamic_shared() : nullptr);

  over_rows(group, params.row.rows, [&](int64 index, bool exists) {
    const Row<shape> row(params.row, index, static_cast<const Input*>(nullptr));
    const Input* const logits = row.template input<Input>(params.row, 0);
    // In place, every thread must have read the target's logit before any thread stores a gradient: the reduction of the
    // exponentials ensures this, because they depend on a maximum that includes that logit.
    resident.load(logits, row, thread_rank, Maximum::identity());
    group.start();
    const auto later = RowFeatures<shape>::Prefetch::of(group, params.row, index);
    later.template start<Input, config.load>(params.row, params.row.input[0], params.row.input_stride[0]);
    // Without a barrier, ptxas moves the load of the target before the loads of the row, and waits for its result in
    // between.
    sync_warp();
    const Target<TargetType> target(params, index, columns_of<shape>(params.row));
    const int64 position = target.column >= 0 ? target.column + row.shift : -1;
    constexpr bool finds = finds_target<Group, ResidentRow>;
    TargetElement<Input> target_element;
    if constexpr (!finds) target_element.ask(position >= 0, logits + position);
    const Number target_weight = weight_of<options>(params, target.column);
    FoundElement<Input> found;
    const bool holds_target = take_out<Input, Group::group_size>(resident, position, thread_rank, found);
    Sender<Group, Input> sender;
    if constexpr (finds) sender.send(found, holds_target, owner_of<Group::group_size, vector>(position));

    using Local = typename If<Group::distant, BlockGroup<Group::threads>, Group>::type;
    Local local(nullptr, 0);
    Partial part;
    part.largest = local.template reduce<0>(scale(resident.largest()), Maximum());
    if constexpr (finds) target_element.element.access[0] = sender.received().bits();
    const Number target_logit = target_element.value(scale, position >= 0);
    part.largest = maximum_or_nan(part.largest, target_logit);
    // All elements of this block may be -inf although the row has others: any finite maximum makes their exponentials 0.
    const bool nothing = part.largest == Maximum::identity();
    const Number under = nothing ? 0.0f : part.largest;
    const ExponentialOf<options> exponential(under);

    SumOfTrees<SumOf<(vectors > 8), Number>, Number, (vectors > 8 ? 1 : 3)> sum_excluding_max;
    Number below = 0.0f, weights = 0.0f;
    int first = is_largest(target_logit, part.largest) && position >= 0 ? static_cast<int>(target.column) : no_column;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0)>(row.all.end, i)) break;
      Number values[vector];
      resident.get(i, values);
      scale.apply(values);
      const int64 column = column_of<shape, Group::group_size>(i, thread_rank);
      if constexpr (options.smoothing)
        include_below<shape, options>(params, row, column, position, under, values, below, weights);
      if constexpr (options.argmax) first = First()(first, first_largest(row, column, part.largest, values));
      sum_excluding_max.include(exponentiate<vector>(exponential, values));
      if (ResidentRow::exact(i) && !keeps_logits) resident.put(i, values);
    }
    part.sum_excluding_max = local.template reduce<1>(sum_excluding_max.value(), Sum());
    if constexpr (options.smoothing) {
      const auto sums = local.template reduce<4>(PairOf<Number>{below, weights}, SumOfEach<Number>());
      part.below = sums.first;
      part.weights = sums.second;
    }
    if constexpr (options.argmax) part.index = local.template reduce<5>(first, First());
    if constexpr (Group::distant) {
      RunningCrossEntropy<shape, options> all;
      group.exchange(part, [&](const Partial& other) { all.include(other); });
      typename Group::Takers takers(nullptr, 0);
      part = all.over_group(takers);
    }

    if (!exists) return;
    if constexpr (options.shard) {
      if (thread_rank == 0) write_partial<options>(params, index, part, position >= 0, target_logit, target_weight);
    } else {
      const RowLoss<options> loss(params, part, target_logit, target_weight, target.ignored, target.bad);
      if (thread_rank == 0) write_loss<TargetType, options>(params, index, target, loss, target.column);
      if constexpr (options.gradient) {
        const CrossEntropyGradient<shape, options> gradient(params, loss, GradientScale<options>(params, index),
                                                            target.counts());
        // Factor of the resident exponentials.
        const Number rescale = Group::distant && !nothing ? exponential.rescale_to(loss.exponential) : 1.0f;
        Output* const dlogits = row.template output<Output>(params.row);
        if (!target.counts()) {  // write zeros whatever the logits are
#pragma unroll
          for (int i = 0; i < vectors; ++i) {
            if constexpr (leaves_early<shape>) {
              if (beyond_row<shape, Group::group_size>(row.all.end, i)) break;
            }
            const Compute<Output> zeros[vector] = {};
            store_of_row<Output, shape, config.store, Group::group_size>(dlogits, i, thread_rank, row, zeros);
          }
          return;
        }
#pragma unroll
        for (int i = 0; i < vectors; ++i) {
          if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0)>(row.all.end, i)) break;
          Number values[vector];
          resident.get(i, values);
          const int64 column = column_of<shape, Group::group_size>(i, thread_rank);
          if (!ResidentRow::exact(i) || keeps_logits) {
            gradient_of_logits(params, row, scale, loss, gradient, column, values);
          } else {
            if constexpr (Group::distant) {
#pragma unroll
              for (int j = 0; j < vector; ++j) values[j] = multiply(values[j], rescale);
            }
            gradient.compute(params, row, column, values, values);
          }
          store_of_row<Output, shape, config.store, Group::group_size>(dlogits, i, thread_rank, row, values);
        }
        // The same thread stored the vector that contains the target.
        if (holds_target) store_element(dlogits + position, gradient.target(target_logit));
      }
    }
  });
}

}  // namespace tunesmith
