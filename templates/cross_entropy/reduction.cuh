// Reductions over rows: the total loss, the number of correct predictions, invalid targets, and the divisor of the mean.
// Sums use two numbers, in an order that depends only on the number of rows. One block reduces a few thousand rows; for
// more, many blocks write partial totals first. Each of these kernels and the row kernel may start while the one before it
// ends, and waits for it before it reads its results.
#pragma once

#include "cross_entropy/cross_entropy.cuh"
#include "device/dependent_launch.cuh"

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

template <typename Number>
struct Totals {
  PairOf<Number> loss = {}, z_loss = {}, weight = {};
  int64 num_correct = 0, bad = 0, first_bad = FirstRow::identity();
};

/// For a mean with two divisors: adds the number of rows that are not ignored.
template <typename Number>
struct TotalsAndRows : Totals<Number> {
  int64 rows = 0;
};
static_assert(sizeof(TotalsAndRows<float>) == 56 && sizeof(TotalsAndRows<double>) <= 96, "the host allocates so much");
template <const CrossEntropyOptions& options>
using TotalsOf = typename If<two_divisors<options>, TotalsAndRows<NumberOf<options>>, Totals<NumberOf<options>>>::type;

template <const CrossEntropyOptions& options>
__device__ __forceinline__ void include(TotalsOf<options>& totals, const TotalsOf<options>& other) {
  using Addition = SumOfTwo<NumberOf<options>>;
  totals.loss = Addition()(totals.loss, other.loss);
  totals.z_loss = Addition()(totals.z_loss, other.z_loss);
  totals.weight = Addition()(totals.weight, other.weight);
  totals.num_correct += other.num_correct;
  totals.bad += other.bad;
  totals.first_bad = FirstRow()(totals.first_bad, other.first_bad);
  if constexpr (two_divisors<options>) totals.rows += other.rows;
}

/// Returns the contribution of one row. `before` the gradient: only the target's weight; otherwise the row kernel's results.
template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ TotalsOf<options> totals_of_row(const ParamsOf<options>& params, int64 row) {
  TotalsOf<options> totals;
  const Target<TargetType> target(params, row, params.vocab_size);
  if constexpr (two_divisors<options>) totals.rows = target.counts() ? 1 : 0;
  if constexpr (before) {
    const NumberOf<options> weight = target.counts() ? weight_of<options>(params, target.column) : 0.0f;
    totals.weight = {weight, 0.0f};
  } else {
    if constexpr (options.reduced) {
      totals.loss = {scratch(params, params.row_losses)[row], 0.0f};
      if constexpr (options.z_loss) totals.z_loss = {scratch(params, params.row_z_losses)[row], 0.0f};
      totals.weight = {options.weights ? scratch(params, params.row_weights)[row] : (target.counts() ? 1.0f : 0.0f), 0.0f};
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
__device__ __forceinline__ TotalsOf<options> totals_of_rows(const ParamsOf<options>& params, int64 begin, int64 end) {
  TotalsOf<options> totals;
#pragma unroll 4
  for (int64 row = begin + thread_index(); row < end; row += reduction_threads)
    include<options>(totals, totals_of_row<TargetType, options, before>(params, row));
  return totals;
}

/// Reduces over a block. Each reduction takes half a microsecond, so unused ones are skipped.
template <const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ TotalsOf<options> over_block(TotalsOf<options> totals) {
  using Addition = SumOfTwo<NumberOf<options>>;
  BlockGroup<reduction_threads> group(nullptr, 0);
  if constexpr (before || options.mean) totals.weight = group.template reduce<2>(totals.weight, Addition());
  if constexpr (two_divisors<options>) totals.rows = group.template reduce<6>(totals.rows, CountSum());
  if constexpr (!before && options.reduced) totals.loss = group.template reduce<0>(totals.loss, Addition());
  if constexpr (!before && options.reduced && options.z_loss)
    totals.z_loss = group.template reduce<1>(totals.z_loss, Addition());
  if constexpr (!before && options.count_correct)
    totals.num_correct = group.template reduce<3>(totals.num_correct, CountSum());
  if constexpr (!before && options.check_targets) {
    totals.bad = group.template reduce<4>(totals.bad, CountSum());
    totals.first_bad = group.template reduce<5>(totals.first_bad, FirstRow());
  }
  return totals;
}

/// Writes partial totals, one per block.
template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ void cross_entropy_partial_reduction(const ParamsOf<options>& params) {
  let_next_kernel_start();
  if constexpr (!before) await_last_kernel();
  const int64 begin = block_index() * rows_per_partial;
  const int64 end = begin + rows_per_partial < params.row.rows ? begin + rows_per_partial : params.row.rows;
  const TotalsOf<options> totals =
      over_block<options, before>(totals_of_rows<TargetType, options, before>(params, begin, end));
  if (thread_index() == 0)
    reinterpret_cast<TotalsOf<options>*>(scratch(params, params.partial_totals))[block_index()] = totals;
}

/// Computes the final totals in one block.
template <typename TargetType, const CrossEntropyOptions& options, bool before>
__device__ __forceinline__ void cross_entropy_totals(const ParamsOf<options>& params) {
  let_next_kernel_start();
  if (!before || params.partials > 0) await_last_kernel();
  TotalsOf<options> totals;
  if (params.partials == 0) {
    totals = totals_of_rows<TargetType, options, before>(params, 0, params.row.rows);
  } else {
    const auto* const partials = reinterpret_cast<const TotalsOf<options>*>(scratch(params, params.partial_totals));
    for (int64 i = thread_index(); i < params.partials; i += reduction_threads) include<options>(totals, partials[i]);
  }
  totals = over_block<options, before>(totals);
  if (thread_index() != 0) return;
  const auto weight = rounded(totals.weight);
  if constexpr (before) {
    scratch(params, params.totals)[0] = weight;
    if constexpr (two_divisors<options>) scratch(params, params.totals)[2] = static_cast<NumberOf<options>>(totals.rows);
    return;
  }
  if constexpr (two_divisors<options>) {
    const auto z_loss = divide(rounded(totals.z_loss), static_cast<NumberOf<options>>(totals.rows));
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

/// Sums all class weights in one block: the backward operation needs the sum for label smoothing.
template <typename Number>
__device__ __forceinline__ void sum_class_weights(const CrossEntropyParamsOf<Number>& params) {
  PairOf<Number> sum = {};
#pragma unroll 4
  for (int64 i = thread_index(); i < params.vocab_size; i += reduction_threads)
    sum = SumOfTwo<Number>()(sum, {params.weight[i], 0.0f});
  BlockGroup<reduction_threads> group(nullptr, 0);
  sum = group.template reduce<0>(sum, SumOfTwo<Number>());
  if (thread_index() == 0) scratch(params, params.totals)[1] = rounded(sum);
}

}  // namespace tunesmith
