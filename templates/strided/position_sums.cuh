// Sums of values over all rows and positions, one for each column, of a row program over a dimension that is not the last:
// the gradient of weights [col].
//
// A tile of positions adds up its values of each column: each thread over its vector, then the lanes of a warp, then the
// warps that have the same columns. The sums of tiles go to the workspace; a second kernel (row/schedules/column_sums.cuh)
// adds them up. Each order is fixed by the configuration and the number of positions, so results are bitwise reproducible.
//
// Error: a value goes through at most 16 plain additions in a thread, 5 between lanes and 31 between warps; everything after
// that is compensated.
#pragma once

#include "row/schedules/column_sums.cuh"
#include "strided/schedules.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape, const StridedConfig& config>
struct PositionSums {
  static constexpr int lanes = config.lanes, warps_of_column = lanes > 32 ? lanes / 32 : 1;

  /// Includes a column; `results`: of Program::outputs(), for each position of the vector. All threads of the block.
  template <typename Rows, int count, int vector>
  __device__ __forceinline__ void include(const Rows& rows, int i, int64 column,
                                          const Number<shape> (&results)[count][vector]) const {
    const bool holds = rows.strided.holds(column);
#pragma unroll
    for (int s = 0; s < Program::sums; ++s) {
      Number<shape> total = 0.0f;
#pragma unroll
      for (int j = 0; j < vector; ++j) total = add(total, holds ? results[Program::Outputs::count + s][j] : 0.0f);
#pragma unroll
      for (int distance = (lanes < 32 ? lanes : 32) / 2; distance > 0; distance /= 2)
        total = add(total, shuffle_xor(total, distance));
      if constexpr (warps_of_column == 1) {
        if (rows.strided.lane == 0) store_total(rows, s, column, total);
      } else if (lane_index() == 0) {
        of_warps()[(s * config.columns + i) * (config.threads / 32) + warp_index()] = total;
      }
    }
  }

  /// Stores the sums of a tile of columns that several warps share. All threads of the block.
  template <typename Rows>
  __device__ __forceinline__ void store(const Rows& rows, int64 first) const {
    if constexpr (warps_of_column > 1) {
      sync_block();
      const int64 begin = first - rows.strided.member;
      for (int at = thread_index(); at < Program::sums * config.columns * members<config>; at += config.threads) {
        const int member = at % members<config>, i = at / members<config> % config.columns,
                  s = at / (members<config> * config.columns);
        const Number<shape>* const parts =
            of_warps() + (s * config.columns + i) * (config.threads / 32) + member * warps_of_column;
        Number<shape> total = parts[0];
#pragma unroll
        for (int warp = 1; warp < warps_of_column; ++warp) total = add(total, parts[warp]);
        store_total(rows, s, begin + member + i * members<config>, total);
      }
      sync_block();  // the next tile of columns uses the same memory
    }
  }
  /// After all columns of the block.
  template <typename Rows>
  __device__ __forceinline__ void finish(const Rows&) const {}

 private:
  static __device__ __forceinline__ Number<shape>* of_warps() {
    TUNESMITH_SHARED(Number<shape>, all, Program::sums * config.columns * (config.threads / 32));
    return all;
  }
  template <typename Rows>
  static __device__ __forceinline__ void store_total(const Rows& rows, int sum, int64 column, Number<shape> total) {
    // A folded grid has surplus blocks.
    if (rows.strided.tile < rows.params.row.groups && column < rows.strided.end)
      PartialSums<shape>::row(rows.params.row, sum, 0, rows.strided.tile)[column] = total;
  }
};

}  // namespace tunesmith
