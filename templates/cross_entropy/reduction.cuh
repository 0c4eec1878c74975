// Sums over rows: the reduced loss, how many rows were predicted right, which targets are no class; and, before a gradient
// is written, what its mean is divided by. Sums are formed in two floats and in an order that the number of rows alone
// decides. Up to some thousand rows one block does it; beyond, many blocks leave partial totals for it.
#pragma once

#include "cross_entropy/cross_entropy.cuh"

namespace tunesmith {

constexpr int reduction_threads = 1024;
constexpr int rows_per_partial = 4096;

struct CountSum {
  static __device__ __forceinline__ int64 identity() { return 0; }
  __device__ __forceinline__ int64 operator()(int64 a, int64 b) const { return a + b; }
};
struct FirstRow {
  static __device__ __forceinline__ int64 identity() { return 0x7fffffffffffffff; }
  __device__ __forceinline__ int64 operator()(int64 a, int64 b) const { return a < b ? a : b; }
};

struct Totals {
  FloatPair loss, z_loss, weight;
  int64 num_correct, bad, first_bad;
};

/// For a mean with two divisors: also the number of rows that are not ignored.
struct TotalsAndRows : Totals {
  int64 rows;
};
template <const CrossEntropyOptions& options>
using TotalsOf = typename If<two_divisors<options>, TotalsAndRows, Totals>::type;

__device__ __forceinline__ FloatPair exact(float value) { return {value, 0.0f}; }

template <const CrossEntropyOptions& options>
__device__ __forceinline__ TotalsOf<options> no_totals() {
  const Totals none = {exact(0.0f), exact(0.0f), exact(0.0f), 0, 0, FirstRow::identity()};
  if constexpr (two_divisors<options>)
    return {none, 0};
  else
    return none;
}

__device__ __forceinline__ void include(Totals& totals, const Totals& other) {
  totals.loss = SumOfTwoFloats()(totals.loss, other.loss);
  totals.z_loss = SumOfTwoFloats()(totals.z_loss, other.z_loss);
  totals.weight = SumOfTwoFloats()(totals.weight, other.weight);
  totals.num_correct += other.num_correct;
  totals.bad += other.bad;
  totals.first_bad = FirstRow()(totals.first_bad, other.first_bad);
}
__device__ __forceinline__ void include(TotalsAndRows& totals, const TotalsAndRows& other) {
  include(static_cast<Totals&>(totals), static_cast<const Totals&>(other));
  totals.rows += other.rows;
}

/// A value that is not finite makes a two-float sum's second part NaN; the first says it all.
__device__ __forceinline__ float rounded(FloatPair sum) {
  return is_finite(sum.first) ? add(sum.first, sum.second) : sum.first;
}

/// What one row adds. `before`: only the weight, from the targets; else from what the row's kernel left.
template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ TotalsOf<options> totals_of_row(const CrossEntropyParams& params, int64 row) {
  TotalsOf<options> totals = no_totals<options>();
  const Target<TargetType> target(params, row, params.vocab_size);
  if constexpr (two_divisors<options>) totals.rows = target.counts() ? 1 : 0;
  if constexpr (before) {
    totals.weight = exact(target.counts() ? weight_of<options>(params, target.column) : 0.0f);
  } else {
    if constexpr (options.reduced) {
      totals.loss = exact(scratch(params, params.row_losses)[row]);
      if constexpr (options.z_loss) totals.z_loss = exact(scratch(params, params.row_z_losses)[row]);
      totals.weight = exact(options.weights ? scratch(params, params.row_weights)[row] : (target.counts() ? 1.0f : 0.0f));
    }
    if constexpr (options.count_correct) totals.num_correct = scratch(params, params.row_correct)[row] != 0.0f ? 1 : 0;
    if constexpr (options.check_targets) {
      totals.bad = target.bad ? 1 : 0;
      totals.first_bad = target.bad ? row : FirstRow::identity();
    }
  }
  return totals;
}

template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ TotalsOf<options> totals_of_rows(const CrossEntropyParams& params, int64 begin, int64 end) {
  TotalsOf<options> totals = no_totals<options>();
#pragma unroll 4
  for (int64 row = begin + thread_index(); row < end; row += reduction_threads)
    include(totals, totals_of_row<TargetType, options, before>(params, row));
  return totals;
}

/// Each reduction takes half a microsecond: only those that are asked for.
template <const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ TotalsOf<options> over_block(TotalsOf<options> totals) {
  BlockGroup<reduction_threads> group(nullptr, 0);
  if constexpr (before || options.mean) totals.weight = group.template reduce<2>(totals.weight, SumOfTwoFloats());
  if constexpr (two_divisors<options>) totals.rows = group.template reduce<6>(totals.rows, CountSum());
  if constexpr (!before && options.reduced) totals.loss = group.template reduce<0>(totals.loss, SumOfTwoFloats());
  if constexpr (!before && options.reduced && options.z_loss)
    totals.z_loss = group.template reduce<1>(totals.z_loss, SumOfTwoFloats());
  if constexpr (!before && options.count_correct)
    totals.num_correct = group.template reduce<3>(totals.num_correct, CountSum());
  if constexpr (!before && options.check_targets) {
    totals.bad = group.template reduce<4>(totals.bad, CountSum());
    totals.first_bad = group.template reduce<5>(totals.first_bad, FirstRow());
  }
  return totals;
}

/// Many blocks: leaves [partials] totals.
template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ void cross_entropy_partial_reduction(const CrossEntropyParams& params) {
  const int64 begin = block_index() * rows_per_partial;
  const int64 end = begin + rows_per_partial < params.row.rows ? begin + rows_per_partial : params.row.rows;
  const TotalsOf<options> totals =
      over_block<options, before>(totals_of_rows<TargetType, options, before>(params, begin, end));
  if (thread_index() == 0)
    reinterpret_cast<TotalsOf<options>*>(scratch(params, params.partial_totals))[block_index()] = totals;
}

/// One block.
template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ void cross_entropy_totals(const CrossEntropyParams& params) {
  TotalsOf<options> totals = no_totals<options>();
  if (params.partials == 0) {
    totals = totals_of_rows<TargetType, options, before>(params, 0, params.row.rows);
  } else {
    const auto* const partials = reinterpret_cast<const TotalsOf<options>*>(scratch(params, params.partial_totals));
    for (int64 i = thread_index(); i < params.partials; i += reduction_threads) include(totals, partials[i]);
  }
  totals = over_block<options, before>(totals);
  if (thread_index() != 0) return;
  const float weight = rounded(totals.weight);
  if constexpr (before) {
    scratch(params, params.totals)[0] = weight;
    if constexpr (two_divisors<options>) scratch(params, params.totals)[2] = static_cast<float>(totals.rows);
    return;
  }
  if constexpr (two_divisors<options>) {
    const float z_loss = divide(rounded(totals.z_loss), static_cast<float>(totals.rows));
    params.loss[0] = add(divide(rounded(totals.loss), weight), z_loss);
    params.z_loss[0] = z_loss;
  } else if constexpr (options.reduced) {
    params.loss[0] = options.mean ? divide(rounded(totals.loss), weight) : rounded(totals.loss);
    if constexpr (options.z_loss)
      params.z_loss[0] = options.mean ? divide(rounded(totals.z_loss), weight) : rounded(totals.z_loss);
  }
  if constexpr (options.count_correct) params.num_correct[0] = totals.num_correct;
  if constexpr (options.check_targets) {
    params.bad_targets[0] = totals.bad;
    params.bad_targets[1] = totals.bad > 0 ? totals.first_bad : -1;
  }
}

/// One block: the sum of all classes' weights, which the backward operation needs for label smoothing.
__device__ __forceinline__ void sum_class_weights(const CrossEntropyParams& params) {
  FloatPair sum = exact(0.0f);
#pragma unroll 4
  for (int64 i = thread_index(); i < params.vocab_size; i += reduction_threads)
    sum = SumOfTwoFloats()(sum, exact(params.weight[i]));
  BlockGroup<reduction_threads> group(nullptr, 0);
  sum = group.template reduce<0>(sum, SumOfTwoFloats());
  if (thread_index() == 0) scratch(params, params.totals)[1] = rounded(sum);
}

}  // namespace tunesmith
