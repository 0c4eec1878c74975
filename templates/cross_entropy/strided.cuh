// Cross-entropy over a strided dimension (strided/strided.cuh), with the arithmetic of adjacent columns.
//
// resident  one read and, for the gradient, one write: the columns of a tile of positions stay in the registers of a block
// cluster   the same in the registers of a cluster of blocks, which exchange their partials once
// two_pass  one read with running sums; for the gradient a second pass reads the columns again and writes
// split     the same with several blocks per tile: a first kernel writes partials, a second one combines them
//
// The thread that reads a target's logit takes it out of its columns: in place, no other thread needs it later.
#pragma once

#include "cross_entropy/outcome.cuh"
#include "cross_entropy/strided_logits.cuh"

namespace tunesmith {

/// Adds the first and takes the maximum of the second: a sum, and a value that one term has.
template <typename Number>
struct SumAndMaximum {
  __device__ __forceinline__ PairOf<Number> operator()(PairOf<Number> a, PairOf<Number> b) const {
    return {add(a.first, b.first), maximum_or_nan(a.second, b.second)};
  }
};

/// Reduces partials over the members of each lane. Their sums must be relative to the same maxima.
template <int slot, const CrossEntropyOptions& options, const StridedConfig& config>
__device__ __forceinline__ void sum_members(StoredPartial<options> (&parts)[config.vector]) {
  using Number = NumberOf<options>;
  constexpr int vector = config.vector;
  PairOf<Number> sums[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) sums[j] = {parts[j].part.sum_excluding_max, parts[j].target_logit};
  reduce_members<slot, config>(sums, SumAndMaximum<Number>());
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    parts[j].part.sum_excluding_max = sums[j].first;
    parts[j].target_logit = sums[j].second;
  }
  if constexpr (options.smoothing) {
#pragma unroll
    for (int j = 0; j < vector; ++j) sums[j] = {parts[j].part.below, parts[j].part.weights};
    reduce_members<slot + 1, config>(sums, SumOfEach<Number>());
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      parts[j].part.below = sums[j].first;
      parts[j].part.weights = sums[j].second;
    }
  }
  if constexpr (options.argmax) {
    int first[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) first[j] = parts[j].part.index;
    reduce_members<slot + 2, config>(first, First());
#pragma unroll
    for (int j = 0; j < vector; ++j) parts[j].part.index = first[j];
  }
}

/// Combines running states over the members of each lane. `whole` has the threads' target logits.
template <const RowShape& shape, const CrossEntropyOptions& options, const StridedConfig& config>
__device__ __forceinline__ void combine_members(RunningCrossEntropy<shape, options> (&states)[config.vector],
                                                StoredPartial<options> (&whole)[config.vector]) {
  constexpr int vector = config.vector;
  NumberOf<options> largest[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) largest[j] = states[j].largest;
  reduce_members<4, config>(largest, Maximum());
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    states[j].raise_to(largest[j]);
    whole[j].part = states[j].part();
  }
  sum_members<5, options, config>(whole);
}

/// Combines partials of slices of the columns, stored as [slices][vector][lanes].
template <const RowShape& shape, const CrossEntropyOptions& options, const StridedConfig& config>
__device__ __forceinline__ void combine_slices(const StridedPlace<shape, config>& place, const StoredPartial<options>* parts,
                                               StoredPartial<options> (&whole)[config.vector]) {
  constexpr int vector = config.vector;
  RunningCrossEntropy<shape, options> states[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) whole[j].target_logit = Maximum::identity();
  if (place.exists) {
    for (int part = place.member; part < config.blocks_per_row; part += members<config>) {
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        const StoredPartial<options> stored = parts[(part * vector + j) * config.lanes + place.lane];
        states[j].include(stored.part);
        whole[j].target_logit = maximum_or_nan(whole[j].target_logit, stored.target_logit);
      }
    }
  }
  combine_members<shape, options, config>(states, whole);
}

/// The losses of a thread's positions, and their gradients.
template <typename TargetType, const RowShape& shape, const CrossEntropyOptions& options, const StridedConfig& config>
struct StridedLosses {
  using Gradient = CrossEntropyGradient<shape, options>;

  Later<RowLoss<options>> losses[config.vector];
  Later<Gradient> gradients[config.vector];
  NumberOf<options> of_target[config.vector];
  bool counts[config.vector];

  /// Writes the losses: once for each position.
  __device__ __forceinline__ StridedLosses(const ParamsOf<options>& params, const StridedPlace<shape, config>& place,
                                           const StridedTargets<TargetType, shape, config>& targets,
                                           const StoredPartial<options> (&whole)[config.vector]) {
#pragma unroll
    for (int j = 0; j < config.vector; ++j) {
      const Target<TargetType>& target = targets.of[j].value;
      const int64 position = targets.first + j;
      RowLoss<options>& loss = losses[j].value;
      loss = RowLoss<options>(params, whole[j].part, whole[j].target_logit, weight_of<options>(params, target.column),
                              target.ignored, target.bad);
      if (place.exists && place.part == 0 && place.member == 0)
        write_loss<TargetType, options>(params, position, target, loss, target.column);
      if constexpr (options.gradient) {
        counts[j] = target.counts();
        gradients[j].value = Gradient(params, loss, GradientScale<options>(params, position), counts[j]);
        of_target[j] = gradients[j].value.target(whole[j].target_logit);
      }
    }
  }
};

/// Computes the partials of the columns that a block or cluster holds, stores the losses and, if asked for, the gradient.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config>
__device__ __forceinline__ void cross_entropy_strided_resident(const StridedLogits<ParamsOf<options>>& params) {
  using Number = NumberOf<options>;
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  constexpr int vector = config.vector, columns = config.columns;
  constexpr bool shared = config.blocks_per_row > 1;  // by a cluster
  // Exponentials replace the resident logits if they are exact and nothing needs the logits later.
  constexpr bool keeps_exponentials = options.gradient && LogitScale<options>::plain && sizeof(Input) >= 4;

  start_cluster<config>();
  const StridedPlace<shape, config> place(params.strided);
  const Input* const logits = place.template input<Input>(params.strided, 0);
  Packed<Input, vector> held[columns];
#pragma unroll
  for (int i = 0; i < columns; ++i)
    held[i] = place.template load<config.load>(logits, params.strided.first_cols,
                                               place.begin + place.member + i * members<config>, Maximum::identity());
  const StridedTargets<TargetType, shape, config> targets(params, place);
  const LogitScale<options> scale(params);
  const Row<shape> row = columns_before<shape>(params.row, place.end);

  Number largest[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) largest[j] = Maximum::identity();
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    Number values[vector];
    held[i].unpack(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) largest[j] = maximum_or_nan(largest[j], values[j]);
    if constexpr (sizeof(Input) == 2) held[i].forget_uses();  // float32 elements would take twice the registers
  }
  scale.apply(largest);
  reduce_members<0, config>(largest, Maximum());

  StoredPartial<options> whole[vector];
  Later<ExponentialOf<options>> exponentials[vector];
  Number under[vector], below[vector], weights[vector];
  int first[vector];
  SumOf<(columns > 4), Number> sums[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    // A slice may be -inf only although the row has other elements: any finite maximum makes its exponentials 0.
    under[j] = largest[j] == Maximum::identity() ? 0.0f : largest[j];
    exponentials[j].value = ExponentialOf<options>(under[j]);
    below[j] = weights[j] = 0.0f;
    first[j] = no_column;
    whole[j].target_logit = Maximum::identity();
  }
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    const int64 column = place.begin + place.member + i * members<config>;
    Number values[vector];
    held[i].unpack(values);
    scale.apply(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      Number one[1] = {values[j]};
      const bool is_target = targets.own[j] == i;
      if constexpr (options.argmax) first[j] = First()(first[j], first_largest(row, column, largest[j], one));
      if constexpr (options.smoothing)
        include_below<shape, options>(params, row, column, targets.of[j].value.column, under[j], one, below[j], weights[j]);
      whole[j].target_logit = is_target ? one[0] : whole[j].target_logit;
      one[0] = is_target ? Maximum::identity() : one[0];
      sums[j].include(exponentiate<1>(exponentials[j].value, one));
      values[j] = one[0];
    }
    if constexpr (keeps_exponentials)
      held[i].pack_from(values);
    else
      held[i].forget_uses();  // computing exponentials again is cheaper than keeping them
  }
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    whole[j].part.largest = largest[j];
    whole[j].part.sum_excluding_max = sums[j].value();
    if constexpr (options.smoothing) {
      whole[j].part.below = below[j];
      whole[j].part.weights = weights[j];
    }
    if constexpr (options.argmax) whole[j].part.index = first[j];
  }
  sum_members<1, options, config>(whole);
#if TUNESMITH_SM >= 900
  if constexpr (shared) {
    StoredPartial<options> own[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) own[j] = whole[j];
    combine_slices<shape, options, config>(place, exchange_in_cluster(place, own), whole);
  }
#endif

  const StridedLosses<TargetType, shape, options, config> of(params, place, targets, whole);
  if constexpr (options.gradient) {
    Number rescale[vector];  // of the resident exponentials
#pragma unroll
    for (int j = 0; j < vector; ++j)
      rescale[j] = shared && largest[j] != Maximum::identity()
                       ? exponentials[j].value.rescale_to(of.losses[j].value.exponential)
                       : 1.0f;
    Output* const dlogits = place.template output<Output>(params.strided);
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const int64 column = place.begin + place.member + i * members<config>;
      Number values[vector];
      held[i].unpack(values);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        Number one[1] = {values[j]};
        if constexpr (keeps_exponentials) {
          if constexpr (shared) one[0] = multiply(one[0], rescale[j]);
          of.gradients[j].value.compute(params, row, column, one, one);
        } else {
          gradient_of_logits(params, row, scale, of.losses[j].value, of.gradients[j].value, column, one);
        }
        one[0] = targets.own[j] == i ? of.of_target[j] : one[0];
        values[j] = of.counts[j] ? one[0] : 0.0f;  // whatever the logits are
      }
      place.store(dlogits, params.strided.output_cols, column, values);
    }
  }
}

/// Computes the partials of this block's columns.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config>
__device__ __forceinline__ void cross_entropy_strided_first_pass(const StridedLogits<ParamsOf<options>>& params,
                                                                 const StridedPlace<shape, config>& place,
                                                                 const StridedTargets<TargetType, shape, config>& targets,
                                                                 StoredPartial<options> (&partials)[config.vector]) {
  using Input = typename Types::Input;
  constexpr int vector = config.vector, columns = config.columns;
  const Input* const logits = place.template input<Input>(params.strided, 0);
  const LogitScale<options> scale(params);
  const Row<shape> row = columns_before<shape>(params.row, place.end);
  RunningCrossEntropy<shape, options> states[vector];
  int to_target[vector];  // from the tile's first column, counted in the columns of this thread
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    to_target[j] = targets.own[j];
    partials[j].target_logit = Maximum::identity();
  }
  over_column_tiles(place, [&](int64 column) {
    Packed<Input, vector> tile[columns];
    int64 of_tile[columns];
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      of_tile[i] = column + i * members<config>;
      tile[i] = place.template load<config.load>(logits, params.strided.first_cols, of_tile[i], Maximum::identity());
    }
    NumberOf<options> values[vector][columns][1];
    NumberOf<options> highest[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) highest[j] = Maximum::identity();
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      NumberOf<options> of_column[vector];
      tile[i].unpack(of_column);
      scale.apply(of_column);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        const bool is_target = to_target[j] == i;
        partials[j].target_logit = is_target ? of_column[j] : partials[j].target_logit;
        values[j][i][0] = is_target ? Maximum::identity() : of_column[j];
        highest[j] = maximum_or_nan(highest[j], values[j][i][0]);
      }
    }
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      states[j].include(params, row, of_tile, targets.of[j].value.column, highest[j], values[j]);
      to_target[j] -= columns;
    }
  });
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    // The thread that has the target includes its logit in the maximum and in argmax.
    states[j].raise_to(maximum_or_nan(states[j].largest, partials[j].target_logit));
    if constexpr (options.argmax)
      if (targets.own[j] >= 0 && is_largest(partials[j].target_logit, states[j].largest))
        states[j].index = First()(states[j].index, static_cast<int>(targets.of[j].value.column));
  }
  combine_members<shape, options, config>(states, partials);
}

/// Reads the columns again and writes the gradient.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config>
__device__ __forceinline__ void cross_entropy_strided_second_pass(
    const StridedLogits<ParamsOf<options>>& params, const StridedPlace<shape, config>& place,
    const StridedTargets<TargetType, shape, config>& targets, const StridedLosses<TargetType, shape, options, config>& of) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  constexpr int vector = config.vector, columns = config.columns;
  const Input* const logits = place.template input<Input>(params.strided, 0);
  Output* const dlogits = place.template output<Output>(params.strided);
  const LogitScale<options> scale(params);
  const Row<shape> row = columns_before<shape>(params.row, place.end);
  int to_target[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) to_target[j] = targets.own[j];
  over_column_tiles(place, [&](int64 column) {
    Packed<Input, vector> tile[columns];
#pragma unroll
    for (int i = 0; i < columns; ++i)
      tile[i] = place.template load<config.load_again>(logits, params.strided.first_cols, column + i * members<config>,
                                                       Maximum::identity());
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      NumberOf<options> values[vector];
      tile[i].unpack(values);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        NumberOf<options> one[1] = {values[j]};
        gradient_of_logits(params, row, scale, of.losses[j].value, of.gradients[j].value, column + i * members<config>, one);
        one[0] = to_target[j] == i ? of.of_target[j] : one[0];
        values[j] = of.counts[j] ? one[0] : 0.0f;  // whatever the logits are
      }
      place.store(dlogits, params.strided.output_cols, column + i * members<config>, values);
    }
#pragma unroll
    for (int j = 0; j < vector; ++j) to_target[j] -= columns;
  });
}

template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config>
__device__ __forceinline__ void cross_entropy_strided_two_pass(const StridedLogits<ParamsOf<options>>& params) {
  const StridedPlace<shape, config> place(params.strided);
  const StridedTargets<TargetType, shape, config> targets(params, place);
  StoredPartial<options> whole[config.vector];
  cross_entropy_strided_first_pass<Types>(params, place, targets, whole);
  const StridedLosses<TargetType, shape, options, config> of(params, place, targets, whole);
  if constexpr (options.gradient) cross_entropy_strided_second_pass<Types>(params, place, targets, of);
}

/// First kernel of several blocks per tile: writes [tiles][blocks_per_row][vector][lanes] partials.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config>
__device__ __forceinline__ void cross_entropy_strided_split_sums(const StridedLogits<ParamsOf<options>>& params) {
  const StridedPlace<shape, config> place(params.strided);
  const StridedTargets<TargetType, shape, config> targets(params, place);
  StoredPartial<options> partials[config.vector];
  cross_entropy_strided_first_pass<Types>(params, place, targets, partials);
  if (place.member != 0 || !place.exists) return;
  auto* const parts =
      static_cast<StoredPartial<options>*>(params.row.workspace) + block_index() * (config.vector * config.lanes);
#pragma unroll
  for (int j = 0; j < config.vector; ++j) parts[j * config.lanes + place.lane] = partials[j];
}

/// Second kernel of several blocks per tile: combines the partials. Without a gradient, one block per tile does that.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config>
__device__ __forceinline__ void cross_entropy_strided_split(const StridedLogits<ParamsOf<options>>& params) {
  constexpr int size = config.blocks_per_row * config.vector * config.lanes;
  const StridedPlace<shape, config> place(params.strided);
  if (!options.gradient && place.part != 0) return;
  const StridedTargets<TargetType, shape, config> targets(params, place);
  const auto* const parts = static_cast<const StoredPartial<options>*>(params.row.workspace) + place.tile * size;
  StoredPartial<options> whole[config.vector];
  combine_slices<shape, options, config>(place, parts, whole);
  const StridedLosses<TargetType, shape, options, config> of(params, place, targets, whole);
  if constexpr (options.gradient) cross_entropy_strided_second_pass<Types>(params, place, targets, of);
}

}  // namespace tunesmith
