// Softmax and log_softmax over a strided dimension (strided/strided.cuh). A row of softmax is the elements of all columns at
// one position.
//
// resident  one read and one write: the columns of a tile of positions stay in the registers of a block
// cluster   the same in the registers of a cluster of blocks, which exchange their partials once
// two_pass  pass 1 computes the maximum and the sums online, pass 2 reads the columns again and writes the result
// split     the same with several blocks per tile: a first kernel writes partials, a second one combines them
#pragma once

#include "softmax/log_softmax.cuh"
#include "softmax/running.cuh"
#include "strided/strided.cuh"

namespace tunesmith {

/// Without a state yet; for arrays of states.
template <const RowShape& shape>
struct StridedRunningSoftmax : RunningSoftmax<shape> {
  __device__ __forceinline__ StridedRunningSoftmax() : RunningSoftmax<shape>(RowParams{}) {}
};

/// Reduces maxima and sums over the members of each lane.
template <const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void combine_members(StridedRunningSoftmax<shape> (&states)[config.vector],
                                                SoftmaxPartial<shape> (&whole)[config.vector]) {
  constexpr int vector = config.vector;
  Number<shape> largest[vector];
  SoftmaxSums<shape> sums[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) largest[j] = states[j].largest;
  reduce_members<2, config>(largest, Maximum());
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    states[j].raise_to(largest[j]);
    sums[j] = {states[j].sum.value(), states[j].max_count};
  }
  reduce_members<3, config>(sums, SumOfEach<Number<shape>>());
#pragma unroll
  for (int j = 0; j < vector; ++j) whole[j] = {largest[j], sums[j].first, sums[j].second};
}

/// Combines partials of slices of the columns, stored as [slices][vector][lanes].
template <const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void combine_slices(const StridedParams& params, const StridedPlace<shape, config>& place,
                                               const SoftmaxPartial<shape>* parts,
                                               SoftmaxPartial<shape> (&whole)[config.vector]) {
  constexpr int vector = config.vector;
  StridedRunningSoftmax<shape> states[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) states[j].scale = exponent_scale<shape>(params.row);
  if (place.exists) {
    for (int part = place.member; part < config.blocks_per_row; part += members<config>) {
#pragma unroll
      for (int j = 0; j < vector; ++j)
        states[j].RunningSoftmax<shape>::include(parts[(part * vector + j) * config.lanes + place.lane]);
    }
  }
  combine_members<shape, config>(states, whole);
}

template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_strided_resident(const StridedParams& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Features = RowFeatures<shape>;
  using Exponential = typename Features::Arithmetic::Exponential;
  constexpr int vector = config.vector, columns = config.columns;
  constexpr bool keeps_exponentials = sizeof(Input) >= 4 && !shape.logarithm;
  constexpr bool shared = config.blocks_per_row > 1;  // by a cluster

  start_cluster<config>();
  const StridedPlace<shape, config> place(params);
  const Input* const x = place.template input<Input>(params, 0);
  Packed<Input, vector> held[columns];
#pragma unroll
  for (int i = 0; i < columns; ++i)
    held[i] = place.template load<config.load>(x, params.first_cols, place.begin + place.member + i * members<config>,
                                               Maximum::identity());

  Number<shape> largest[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) largest[j] = Maximum::identity();
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    Number<shape> values[vector];
    held[i].unpack(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) largest[j] = maximum_or_nan(largest[j], values[j]);
    if constexpr (sizeof(Input) == 2) held[i].forget_uses();  // float32 elements would take twice the registers
  }
  reduce_members<0, config>(largest, Maximum());

  Later<Exponential> exponentials[vector];
  typename Features::Arithmetic::template RunningSum<columns> running[vector];
  SoftmaxSums<shape> sums[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    // A slice may be -inf only although the row has other elements: any finite maximum makes its exponentials 0.
    const Number<shape> under = shared && largest[j] == Maximum::identity() ? Number<shape>(0) : largest[j];
    exponentials[j].value = Exponential(under, exponent_scale<shape>(params.row));
    sums[j] = {0.0f, 0.0f};
  }
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    Number<shape> values[vector];
    held[i].unpack(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      Number<shape> one[1] = {values[j]};
      running[j].include(
          Features::Function::template sum_of_exponentials<shape>(exponentials[j].value, largest[j], sums[j].second, one));
      values[j] = one[0];
    }
    if constexpr (keeps_exponentials)
      held[i].pack_from(values);
    else
      held[i].forget_uses();  // computing exponentials again is cheaper than keeping them
  }
#pragma unroll
  for (int j = 0; j < vector; ++j) sums[j].first = running[j].value();
  reduce_members<1, config>(sums, SumOfEach<Number<shape>>());

  SplitPowerOf<Number<shape>> rescale[vector];  // of the resident exponentials
#pragma unroll
  for (int j = 0; j < vector; ++j) rescale[j] = {1.0f, 1.0f};
#if TUNESMITH_SM >= 900
  if constexpr (shared) {
    SoftmaxPartial<shape> own[vector], whole[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) own[j] = {largest[j], sums[j].first, sums[j].second};
    combine_slices<shape, config>(params, place, exchange_in_cluster(place, own), whole);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      const Exponential of_row(whole[j].largest, exponent_scale<shape>(params.row));
      if (largest[j] != Maximum::identity()) rescale[j] = exponentials[j].value.split_rescale_to(of_row);
      largest[j] = whole[j].largest;
      sums[j] = {whole[j].sum, whole[j].max_count};
    }
  }
#endif
  using Result = typename Features::Function::template Result<shape>;
  Later<Result> results[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    results[j].value = Result(params.row, largest[j], sums[j], rescale[j]);
    if constexpr (shared) results[j].value.under(exponentials[j].value);
  }
  Output* const y = place.template output<Output>(params);
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    Number<shape> values[vector];
    held[i].unpack(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      Number<shape> one[1] = {values[j]};
      if constexpr (keeps_exponentials)
        results[j].value.template finish<shared>(one);
      else
        results[j].value.template compute<shared>(one);
      values[j] = one[0];
    }
    place.store(y, params.output_cols, place.begin + place.member + i * members<config>, values);
  }
}

/// Computes the partials of this block's columns.
template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_strided_first_pass(const StridedParams& params,
                                                           const StridedPlace<shape, config>& place,
                                                           SoftmaxPartial<shape> (&partials)[config.vector]) {
  using Input = typename Types::Input;
  constexpr int vector = config.vector, columns = config.columns;
  const Input* const x = place.template input<Input>(params, 0);
  StridedRunningSoftmax<shape> states[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) states[j].scale = exponent_scale<shape>(params.row);
  over_column_tiles(place, [&](int64 column) {
    Packed<Input, vector> tile[columns];
#pragma unroll
    for (int i = 0; i < columns; ++i)
      tile[i] = place.template load<config.load>(x, params.first_cols, column + i * members<config>, Maximum::identity());
    Number<shape> values[vector][columns][1];
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      Number<shape> of_column[vector];
      tile[i].unpack(of_column);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[j][i][0] = of_column[j];
    }
#pragma unroll
    for (int j = 0; j < vector; ++j) states[j].include(values[j]);
  });
  combine_members<shape, config>(states, partials);
}

template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_strided_second_pass(const StridedParams& params,
                                                            const StridedPlace<shape, config>& place,
                                                            const SoftmaxPartial<shape> (&whole)[config.vector]) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Result = typename RowFeatures<shape>::Function::template Result<shape>;
  constexpr int vector = config.vector, columns = config.columns;
  Later<Result> results[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j)
    results[j].value = Result(params.row, whole[j].largest, {whole[j].sum, whole[j].max_count});
  const Input* const x = place.template input<Input>(params, 0);
  Output* const y = place.template output<Output>(params);
  over_column_tiles(place, [&](int64 column) {
    Packed<Input, vector> tile[columns];
#pragma unroll
    for (int i = 0; i < columns; ++i)
      tile[i] =
          place.template load<config.load_again>(x, params.first_cols, column + i * members<config>, Maximum::identity());
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      Number<shape> values[vector];
      tile[i].unpack(values);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        Number<shape> one[1] = {values[j]};
        results[j].value.compute(one);
        values[j] = one[0];
      }
      place.store(y, params.output_cols, column + i * members<config>, values);
    }
  });
}

template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_strided_two_pass(const StridedParams& params) {
  const StridedPlace<shape, config> place(params);
  SoftmaxPartial<shape> whole[config.vector];
  softmax_strided_first_pass<Types>(params, place, whole);
  softmax_strided_second_pass<Types>(params, place, whole);
}

/// First kernel of several blocks per tile: writes [tiles][blocks_per_row][vector][lanes] partials.
template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_strided_split_sums(const StridedParams& params) {
  const StridedPlace<shape, config> place(params);
  SoftmaxPartial<shape> partials[config.vector];
  softmax_strided_first_pass<Types>(params, place, partials);
  if (place.member != 0 || !place.exists) return;
  auto* const parts =
      static_cast<SoftmaxPartial<shape>*>(params.row.workspace) + block_index() * (config.vector * config.lanes);
#pragma unroll
  for (int j = 0; j < config.vector; ++j) parts[j * config.lanes + place.lane] = partials[j];
}

/// Second kernel of several blocks per tile: combines the partials and writes the result.
template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_strided_split(const StridedParams& params) {
  constexpr int vector = config.vector, size = config.blocks_per_row * vector * config.lanes;
  const StridedPlace<shape, config> place(params);
  const auto* const parts = static_cast<const SoftmaxPartial<shape>*>(params.row.workspace) + place.tile * size;
  SoftmaxPartial<shape> whole[vector];
  combine_slices<shape, config>(params, place, parts, whole);
  softmax_strided_second_pass<Types>(params, place, whole);
}

}  // namespace tunesmith
