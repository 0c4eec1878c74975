// Gradient of softmax and log_softmax in two reads and one write. A cooperative group keeps a row of dy and of y in
// registers and shared memory while it reduces one sum.
#pragma once

#include "row/schedules/hybrid_row.cuh"
#include "softmax/backward.cuh"

namespace tunesmith {

/// `Types` has Input (of dy and y) and Output (of dx).
template <typename Types, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void softmax_backward_resident(const RowParams& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  constexpr int vector = shape.vector;
  using ResidentRow = typename Storage::template Row<Input, shape, config, Group, Packed<Input, vector>::bytes>;
  constexpr int vectors = ResidentRow::vectors;

  Group group(params.workspace, params.groups);
  const int thread_rank = group.thread_rank();
  const Number<shape> absent = absent_y<Input, shape>();
  unsigned char* const memory = config.shared_vectors > 0 ? dynamic_shared() : nullptr;
  ResidentRow dy(memory);
  ResidentRow y(memory + ResidentRow::bytes_to_next);

  over_rows(group, params.rows, [&](int64 index, bool exists) {
    const Row<shape> row(params, index, static_cast<const Input*>(nullptr));
    dy.load(row.template input<Input>(params, 0), row, thread_rank, 0.0f);
    y.load(row.template input<Input>(params, 1), row, thread_rank, absent);
    group.start();
    const auto later = RowFeatures<shape>::Prefetch::of(group, params, index);
#pragma unroll
    for (int i = 0; i < 2; ++i) later.template start<Input, config.load>(params, params.input[i], params.input_stride[i]);

    const MaskOf<shape> mask(params, row);
    CompensatedSumOf<Number<shape>> running_sum;
    Number<shape> not_empty = 0.0f;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, leaves_early<shape>>(row.all.end, i)) break;
      if (i == ResidentRow::in_registers) y.arrived();
      Number<shape> dy_values[vector], y_values[vector];
      dy.get(i, dy_values);
      y.get(i, y_values);
      if constexpr (RowFeatures<shape>::Mask::present) {
        const int64 column = column_of<shape, Group::group_size>(i, thread_rank);
        const bool inside = !ragged<shape> && inside_row<shape, Group::group_size>(i);
        mask.apply(column, inside, 0.0f, dy_values);
        mask.apply(column, inside, absent, y_values);
        dy.put(i, dy_values);
        y.put(i, y_values);
      }
      include_in_sum<Input, shape>(running_sum, dy_values, y_values);
      if constexpr (shape.safe && shape.logarithm) not_empty = maximum(not_empty, not_zero<Input, shape>(y_values));
    }
    const PairOf<Number<shape>> sum = group.template reduce<0>(running_sum.both(), SumOfTwo<Number<shape>>());
    if constexpr (shape.safe && shape.logarithm) not_empty = group.template reduce<1>(not_empty, Maximum());

    const SoftmaxGradient<shape> gradient(params, sum, not_empty);
    if (!exists) return;
    Output* const dx = row.template output<Output>(params);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0)>(row.all.end, i)) break;
      Number<shape> dy_values[vector], y_values[vector];
      dy.get(i, dy_values);
      y.get(i, y_values);
      gradient.compute(dy_values, y_values);
      store_of_row<Output, shape, config.store, Group::group_size>(dx, i, thread_rank, row, dy_values);
    }
  });
}

}  // namespace tunesmith
