// RMS normalization in one read and one write: a cooperative group keeps the row in registers and shared memory while it
// sums the squares. The group is part of a warp, a block, a cluster, or several blocks of a cooperative grid.
#pragma once

#include "rms_norm/rms_norm.cuh"
#include "row/hybrid_row.cuh"

namespace tunesmith {

/// `Types` has Input (of x) and Output (of y); `Storage`: where the row resides.
template <typename Types, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void rms_norm_resident(const RmsNormParamsOf<Number<shape>>& params) {
  using Input = typename Types::Input;
  using ResidentRow = typename Storage::template Row<Input, shape, config, Group>;

  Group group(params.row.workspace, params.row.groups);
  const int thread_rank = group.thread_rank();
  ResidentRow x(config.shared_vectors > 0 ? dynamic_shared() : nullptr);

  over_rows(group, params.row.rows, [&](int64 index, bool exists) {
    const Row<shape> row(params.row, index, static_cast<const Input*>(nullptr));
    x.load(row.template input<Input>(params.row, 0), row, thread_rank, 0.0f);
    group.start();
    const auto later = RowFeatures<shape>::Prefetch::of(group, params.row, index);
    later.template start<Input, config.load>(params.row, params.row.input[0], params.row.input_stride[0]);

    typename SumOfVectors<shape, CompensatedSumOf<Number<shape>>>::type squares;
#pragma unroll
    for (int i = 0; i < ResidentRow::vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, leaves_early<shape>>(row.all.end, i)) break;
      if (i == ResidentRow::in_registers) x.arrived();
      Number<shape> values[shape.vector];
      x.get(i, values);
      include_squares(squares, values);
    }
    const Number<shape> rstd = rstd_of<shape>(params, group.template reduce<0>(squares.both(), SumOfTwo<Number<shape>>()));

    if (!exists) return;
    if (thread_rank == 0 && params.rstd != nullptr) params.rstd[index] = rstd;
#pragma unroll
    for (int i = 0; i < ResidentRow::vectors; ++i) {
      if (row_ends<shape, config, Group::group_size, (shape.least_cols > 0)>(row.all.end, i)) break;
      Number<shape> values[shape.vector];
      x.get(i, values);
      store_normalized<Types, shape, config.store>(params, row, column_of<shape, Group::group_size>(i, thread_rank),
                                                   inside_row<shape, Group::group_size>(i), rstd, values);
    }
  });
}

}  // namespace tunesmith
