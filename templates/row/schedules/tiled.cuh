// A row program for rows that do not fit on chip: one block reads a row once for every stage of reductions and once more for
// the outputs. Column sums (row/schedules/column_sums.cuh) are kept in the workspace.
#pragma once

#include "row/gather.cuh"
#include "row/schedules/column_sums.cuh"
#include "row/schedules/tiles.cuh"

namespace tunesmith {

/// A tile of each input that a pass uses. `index`: of the first one.
template <int index, const RowShape& shape, const TiledConfig& config, typename... Elements>
struct TiledInputs {
  template <typename Program, unsigned used, LoadHint hint>
  __device__ __forceinline__ void load(const typename Program::Params&, const Row<shape>&, bool, int64) {}
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int, Vector&) {}
};
template <int index, const RowShape& shape, const TiledConfig& config, typename First, typename... Rest>
struct TiledInputs<index, shape, config, First, Rest...> {
  Packed<First, shape.vector> first[config.unroll];
  TiledInputs<index + 1, shape, config, Rest...> rest;

  template <typename Program, unsigned used, LoadHint hint>
  __device__ __forceinline__ void load(const typename Program::Params& params, const Row<shape>& row, bool inside,
                                       int64 begin) {
    if constexpr ((used >> index & 1u) != 0)
      load_tile<First, shape, config, hint>(Program::template input<index>(params).template at<First>(row), begin, row.seen,
                                            inside, 0.0f, first);
    rest.template load<Program, used, hint>(params, row, inside, begin);
  }
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int i, Vector& v) {
    if constexpr ((used >> index & 1u) != 0) unpack_numbers(first[i], v.input[index]);
    rest.template get<used>(i, v);
  }
};
template <typename Inputs, const RowShape& shape, const TiledConfig& config>
struct TiledInputsOf;
template <typename... Elements, const RowShape& shape, const TiledConfig& config>
struct TiledInputsOf<TypeList<Elements...>, shape, config> {
  using type = TiledInputs<0, shape, config, Elements...>;
};

/// Computes the reductions of `stage` and of those after it, with one pass over the row for each stage.
template <typename Program, int stage, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void reduce_tiled(const typename Program::Params& params, const Row<shape>& row,
                                             typename Program::Values& values) {
  if constexpr (stage <= Program::stages) {
    using All = typename Program::template RowReductions<stage>;
    typename All::Value partial = All::identity();
    if constexpr (All::floats > 0) {
      constexpr unsigned used = Program::template uses<stage>().inputs;
      over_tiles<shape, config, true>(columns_of<shape>(params.row), 0, row.seen.end, [&](bool inside, int64 begin) {
        typename TiledInputsOf<typename Program::Inputs, shape, config>::type tile;
        tile.template load<Program, used, config.load>(params, row, inside, begin);
#pragma unroll
        for (int i = 0; i < config.unroll; ++i) {
          VectorOf<Program, shape> v;
          tile.template get<used>(i, v);
          const int64 column = begin + (i * config.threads + thread_index()) * shape.vector;
          load_columns<Program, stage>(params, row, column, inside, v);
          include_vector<Program, stage, shape>(params, row, values, column, inside, v, partial);
        }
        raise_bounds(partial, All());
      });
      gather<Program, stage, shape>(params, row, values);
      partial = BlockGroup<config.threads>(nullptr, 0).template reduce<stage - 1>(partial, All());
      sync_block();  // the next row's partial results use the same shared memory
    } else {
      gather<Program, stage, shape>(params, row, values);
    }
    Program::derive(OfStage<stage>(), params, row.index, partial, values);
    reduce_tiled<Program, stage + 1, shape, config>(params, row, values);
  }
}

/// Computes a row and stores its outputs.
template <typename Program, const RowShape& shape, const TiledConfig& config, typename Sums>
__device__ __forceinline__ void program_of_tiled_row(const typename Program::Params& params, int64 index, Sums& sums) {
  const Row<shape> row(params.row, index, static_cast<const typename Program::First*>(nullptr));
  typename Program::Values values;
  Program::derive(OfStage<0>(), params, index, values);
  reduce_tiled<Program, 1, shape, config>(params, row, values);

  if (thread_index() == 0) Program::store_row(params, index, values);
  constexpr unsigned used = Program::template uses<Program::stages + 1>().inputs;
  over_tiles<shape, config, true>(columns_of<shape>(params.row), 0, row.all.end, [&](bool inside, int64 begin) {
    typename TiledInputsOf<typename Program::Inputs, shape, config>::type tile;
    tile.template load<Program, used, config.load_again>(params, row, inside, begin);
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      VectorOf<Program, shape> v;
      tile.template get<used>(i, v);
      const int64 column = begin + (i * config.threads + thread_index()) * shape.vector;
      load_columns<Program, Program::stages + 1>(params, row, column, inside, v);
      finish_vector<Program, false, shape, config.store>(params, row, values, column, inside, true, i, v, sums);
    }
  });
}

template <typename Program, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void program_two_pass(const typename Program::Params& params) {
  const NoColumnSums sums;
  over_parts<shape, config>(params.row,
                            [&](int64 index, int) { program_of_tiled_row<Program, shape, config>(params, index, sums); });
}

template <typename Program, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void program_sums_two_pass(const typename Program::Params& params) {
  WorkspaceSums<Program, shape> sums(block_index());
  over_parts<shape, config>(params.row, [&](int64 index, int) {
    program_of_tiled_row<Program, shape, config>(params, index, sums);
    sums.next_row();
  });
  sums.template finish<config.threads>(params.row);
}

}  // namespace tunesmith
