// Gradient of softmax and log_softmax over a strided dimension, with the variants of softmax/strided.cuh.
#pragma once

#include "softmax/backward.cuh"
#include "strided/strided.cuh"

namespace tunesmith {

/// A sum in two numbers, and the maximum of not_zero(), of a position.
template <typename Number>
struct StridedGradientPart {
  PairOf<Number> sum;
  Number not_zero, unused;
};

/// The sums of one thread, and of all members.
template <typename Input, const RowShape& shape, const StridedConfig& config>
struct StridedGradientSums {
  static constexpr int vector = config.vector;
  static constexpr bool finds_zeros = shape.safe && shape.logarithm;
  CompensatedSumOf<Number<shape>> running[vector];
  PairOf<Number<shape>> sums[vector];
  Number<shape> found[vector];

  __device__ __forceinline__ StridedGradientSums() {
#pragma unroll
    for (int j = 0; j < vector; ++j) found[j] = 0.0f;
  }
  __device__ __forceinline__ void include(const Number<shape> (&dy)[vector], const Number<shape> (&y)[vector]) {
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      const Number<shape> one_dy[1] = {dy[j]}, one_y[1] = {y[j]};
      include_in_sum<Input, shape>(running[j], one_dy, one_y);
      if constexpr (finds_zeros) found[j] = maximum(found[j], not_zero<Input, shape>(one_y));
    }
  }
  __device__ __forceinline__ void end_terms() {
#pragma unroll
    for (int j = 0; j < vector; ++j) sums[j] = running[j].both();
  }
  template <int slot = 0>
  __device__ __forceinline__ void combine_members() {
    reduce_members<slot, config>(sums, SumOfTwo<Number<shape>>());
    if constexpr (finds_zeros) reduce_members<slot + 1, config>(found, Maximum());
  }
};

/// The gradients of a vector of positions.
template <const RowShape& shape, const StridedConfig& config>
struct StridedGradients {
  static constexpr int vector = config.vector;
  Later<SoftmaxGradient<shape>> gradients[vector];

  template <typename Sums>
  __device__ __forceinline__ StridedGradients(const StridedParams& params, const Sums& whole) {
#pragma unroll
    for (int j = 0; j < vector; ++j) gradients[j].value = SoftmaxGradient<shape>(params.row, whole.sums[j], whole.found[j]);
  }
  /// Replaces dy by dx.
  __device__ __forceinline__ void compute(Number<shape> (&dy)[vector], const Number<shape> (&y)[vector]) const {
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      Number<shape> one_dy[1] = {dy[j]};
      const Number<shape> one_y[1] = {y[j]};
      gradients[j].value.compute(one_dy, one_y);
      dy[j] = one_dy[0];
    }
  }
};

/// Combines the sums of slices of the columns, stored as [slices][vector][lanes].
template <typename Sums, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void combine_slices(const StridedPlace<shape, config>& place,
                                               const StridedGradientPart<Number<shape>>* parts, Sums& whole) {
  constexpr int vector = config.vector;
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    whole.sums[j] = SumOfTwo<Number<shape>>::identity();
    whole.found[j] = 0.0f;
  }
  if (place.exists) {
    for (int part = place.member; part < config.blocks_per_row; part += members<config>) {
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        const StridedGradientPart<Number<shape>>& other = parts[(part * vector + j) * config.lanes + place.lane];
        whole.sums[j] = SumOfTwo<Number<shape>>()(whole.sums[j], other.sum);
        whole.found[j] = maximum(whole.found[j], other.not_zero);
      }
    }
  }
  whole.template combine_members<2>();
}

template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_backward_strided_resident(const StridedParams& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  constexpr int vector = config.vector, columns = config.columns;
  start_cluster<config>();
  const StridedPlace<shape, config> place(params);
  const Input* const dy = place.template input<Input>(params, 0);
  const Input* const y = place.template input<Input>(params, 1);
  Packed<Input, vector> held_dy[columns], held_y[columns];
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    const int64 column = place.begin + place.member + i * members<config>;
    held_dy[i] = place.template load<config.load>(dy, params.first_cols, column, 0.0f);
    held_y[i] = place.template load<config.load>(y, params.second_cols, column, absent_y<Input, shape>());
  }
  StridedGradientSums<Input, shape, config> sums;
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    Number<shape> dy_values[vector], y_values[vector];
    held_dy[i].unpack(dy_values);
    held_y[i].unpack(y_values);
    sums.include(dy_values, y_values);
    if constexpr (sizeof(Input) == 2) {  // float32 elements would take twice the registers
      held_dy[i].forget_uses();
      held_y[i].forget_uses();
    }
  }
  sums.end_terms();
  sums.combine_members();
#if TUNESMITH_SM >= 900
  if constexpr (config.blocks_per_row > 1) {
    StridedGradientPart<Number<shape>> own[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) own[j] = {sums.sums[j], sums.found[j], 0.0f};
    combine_slices(place, exchange_in_cluster(place, own), sums);
  }
#endif
  const StridedGradients<shape, config> gradients(params, sums);
  Output* const dx = place.template output<Output>(params);
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    Number<shape> dy_values[vector], y_values[vector];
    held_dy[i].unpack(dy_values);
    held_y[i].unpack(y_values);
    gradients.compute(dy_values, y_values);
    place.store(dx, params.output_cols, place.begin + place.member + i * members<config>, dy_values);
  }
}

/// Calls use(column, dy, y) for the vectors of this block's columns.
template <LoadHint hint, typename Types, const RowShape& shape, const StridedConfig& config, typename Use>
__device__ __forceinline__ void over_strided_gradients(const StridedParams& params, const StridedPlace<shape, config>& place,
                                                       const Use& use) {
  using Input = typename Types::Input;
  constexpr int vector = config.vector, columns = config.columns;
  const Input* const dy = place.template input<Input>(params, 0);
  const Input* const y = place.template input<Input>(params, 1);
  over_column_tiles(place, [&](int64 column) {
    Packed<Input, vector> dy_tile[columns], y_tile[columns];
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const int64 at = column + i * members<config>;
      dy_tile[i] = place.template load<hint>(dy, params.first_cols, at, 0.0f);
      y_tile[i] = place.template load<hint>(y, params.second_cols, at, absent_y<Input, shape>());
    }
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      Number<shape> dy_values[vector], y_values[vector];
      dy_tile[i].unpack(dy_values);
      y_tile[i].unpack(y_values);
      use(column + i * members<config>, dy_values, y_values);
    }
  });
}

template <typename Types, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void strided_gradient_first_pass(const StridedParams& params,
                                                            const StridedPlace<shape, config>& place, Sums& sums) {
  constexpr int vector = config.vector;
  over_strided_gradients<config.load, Types>(
      params, place, [&](int64, Number<shape>(&dy)[vector], Number<shape>(&y)[vector]) { sums.include(dy, y); });
  sums.end_terms();
  sums.combine_members();
}

template <typename Types, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void strided_gradient_second_pass(const StridedParams& params,
                                                             const StridedPlace<shape, config>& place, const Sums& whole) {
  using Output = typename Types::Output;
  constexpr int vector = config.vector;
  const StridedGradients<shape, config> gradients(params, whole);
  Output* const dx = place.template output<Output>(params);
  over_strided_gradients<config.load_again, Types>(params, place,
                                                   [&](int64 column, Number<shape>(&dy)[vector], Number<shape>(&y)[vector]) {
                                                     gradients.compute(dy, y);
                                                     place.store(dx, params.output_cols, column, dy);
                                                   });
}

template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_backward_strided_two_pass(const StridedParams& params) {
  const StridedPlace<shape, config> place(params);
  StridedGradientSums<typename Types::Input, shape, config> sums;
  strided_gradient_first_pass<Types>(params, place, sums);
  strided_gradient_second_pass<Types>(params, place, sums);
}

/// First kernel of several blocks per tile: writes [tiles][blocks_per_row][vector][lanes] partial sums.
template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_backward_strided_split_sums(const StridedParams& params) {
  const StridedPlace<shape, config> place(params);
  StridedGradientSums<typename Types::Input, shape, config> sums;
  strided_gradient_first_pass<Types>(params, place, sums);
  if (place.member != 0 || !place.exists) return;
  auto* const parts = static_cast<StridedGradientPart<Number<shape>>*>(params.row.workspace) +
                      block_index() * (config.vector * config.lanes);
#pragma unroll
  for (int j = 0; j < config.vector; ++j) parts[j * config.lanes + place.lane] = {sums.sums[j], sums.found[j], 0.0f};
}

/// Second kernel of several blocks per tile: reduces the partial sums and writes dx.
template <typename Types, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void softmax_backward_strided_split(const StridedParams& params) {
  constexpr int size = config.blocks_per_row * config.vector * config.lanes;
  const StridedPlace<shape, config> place(params);
  const auto* const parts = static_cast<const StridedGradientPart<Number<shape>>*>(params.row.workspace) + place.tile * size;
  StridedGradientSums<typename Types::Input, shape, config> whole;
  combine_slices(place, parts, whole);
  strided_gradient_second_pass<Types>(params, place, whole);
}

}  // namespace tunesmith
