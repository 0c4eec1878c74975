// Cross-entropy of rows that do not fit on chip. The loss alone takes one read: one block, or several blocks that share a
// row, keep running sums. The gradient reads the logits a second time, from L2 if they are still there.
#pragma once

#include "cross_entropy/outcome.cuh"
#include "cross_entropy/target.cuh"
#include "row/schedules/tiles.cuh"

namespace tunesmith {

/// Replaces element `at` of a tile by -inf.
template <const RowShape& shape, const TiledConfig& config, typename Input>
__device__ __forceinline__ void take_out(int at, Packed<Input, shape.vector> (&tile)[config.unroll]) {
#pragma unroll
  for (int i = 0; i < config.unroll; ++i) {
    const int element = at - (i * config.threads + thread_index()) * shape.vector;
    if (element < 0 || element >= shape.vector) continue;
    Compute<Input> values[shape.vector];
    tile[i].unpack(values);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = j == element ? Maximum::identity() : values[j];
    tile[i].pack_from(values);
  }
}

/// The target of a row, and the partial of a block's slice.
template <typename TargetType, const CrossEntropyOptions& options>
struct FirstPass {
  Target<TargetType> target;
  StoredPartial<options> found;
};

/// Computes the partial of a block's slice of a row, without the target's logit.
///
/// The loads of the first tile are issued before the target's, and the target's before its logit's, so the block never
/// stalls on them. With a few large blocks per multiprocessor, no other block would fill that time.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ FirstPass<TargetType, options> cross_entropy_first_pass(const ParamsOf<options>& params,
                                                                                   const Row<shape>& row, int part) {
  using Input = typename Types::Input;
  constexpr int64 elements = tile_elements<shape, config>;
  const LogitScale<options> scale(params);
  const Input* const logits = row.template input<Input>(params.row, 0);
  const int64 cols = columns_of<shape>(params.row);
  const int64 first = part * part_elements<shape, config>(cols);
  const int64 part_end = first + part_elements<shape, config>(cols);
  const int64 end = row.all.end < part_end ? row.all.end : part_end;
  const int64 inside_end = end < cols ? end : cols;
  // 32-bit tile numbers and one pointer save registers, which limit the number of resident blocks.
  const int tiles = end > first ? static_cast<int>((end - first + elements - 1) / elements) : 1;
  const int whole_tiles = inside_end > first ? static_cast<int>((inside_end - first) / elements) : 0;

  const int own = thread_index() * shape.vector;
  const Input* next = logits + first + own;
  Packed<Input, shape.vector> tile[config.unroll];
  const auto load_next = [&](int number) {
    if ((!shape.shifted || number > 0 || first > 0) && number < whole_tiles) {  // within every row, whatever its shift
#pragma unroll
      for (int i = 0; i < config.unroll; ++i)
        tile[i] = load_whole<Input, shape.vector, config.load>(next, i * config.threads * shape.vector);
    } else {
      const int64 begin = first + number * elements + own;
      const Range rest = {shape.shifted ? row.all.begin - begin : 0, row.all.end - begin};
#pragma unroll
      for (int i = 0; i < config.unroll; ++i)
        tile[i] = RowFeatures<shape>::Edges::template load<Input, shape.vector, config.load>(
            next, i * config.threads * shape.vector, rest, false, Maximum::identity());
    }
    next += elements;
  };
  load_next(0);
  const Target<TargetType> target(params, row.index, cols);
  const int64 position = target.column >= 0 ? target.column + row.shift : -1;
  TargetElement<Input> target_element;
  auto to_target = static_cast<uint32>(
      position - first);  // from the tile's first element; wraps around to a large number for earlier positions

  RunningCrossEntropy<shape, options> state;
#pragma unroll 1
  for (int number = 0;;) {
    if (to_target < static_cast<uint32>(elements)) take_out<shape, config>(static_cast<int>(to_target), tile);
    to_target -= static_cast<uint32>(elements);
    NumberOf<options> values[config.unroll][shape.vector];
    int64 columns[config.unroll];
    NumberOf<options> highest = Maximum::identity();
    PackedMaximum<Input> packed_highest;
    constexpr bool packed = sizeof(Input) == 2 && shape.vector > 1 && LogitScale<options>::plain;
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      columns[i] = first + number * elements + i * config.threads * shape.vector + own;
      if constexpr (packed) packed_highest.include(tile[i]);
      tile[i].unpack(values[i]);
      scale.apply(values[i]);
      if constexpr (!packed) highest = maximum_or_nan(highest, largest_of(values[i]));
    }
    if constexpr (packed) highest = packed_highest.value();
    state.include(params, row, columns, position, highest, values);
    // Load it once, after the first tile, when the target has arrived.
    target_element.ask(number == 0 && position >= 0, logits + position);
    if (++number >= tiles) break;
    load_next(number);
  }

  StoredPartial<options> result;
  result.target_logit = target_element.value(scale, position >= 0);
  BlockGroup<config.threads> group(nullptr, 0);
  // The block that owns the target's column includes its logit in the maximum and in argmax.
  state.raise_to(maximum_or_nan(state.largest, result.target_logit));
  if constexpr (options.argmax)
    if (position >= 0 && is_largest(result.target_logit, state.largest))
      state.index = First()(state.index, static_cast<int>(target.column));
  result.part = state.over_group(group);
  return {target, result};
}

/// Reads a block's slice of a row again and writes the gradient.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ void cross_entropy_second_pass(const ParamsOf<options>& params, const Row<shape>& row,
                                                          const Target<TargetType>& target, int part,
                                                          NumberOf<options> target_logit, const RowLoss<options>& loss) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  const LogitScale<options> scale(params);
  const CrossEntropyGradient<shape, options> gradient(params, loss, GradientScale<options>(params, row.index),
                                                      target.counts());
  const Input* const logits = row.template input<Input>(params.row, 0);
  Output* const dlogits = row.template output<Output>(params.row);
  over_tiles<shape, config, true>(columns_of<shape>(params.row), part, row.all.end, [&](bool inside, int64 begin) {
    if (!target.counts()) {  // write zeros whatever the logits are
#pragma unroll
      for (int i = 0; i < config.unroll; ++i) {
        const Compute<Output> zeros[shape.vector] = {};
        RowFeatures<shape>::Edges::template store<Output, shape.vector, config.store>(
            dlogits, begin + (i * config.threads + thread_index()) * shape.vector, row.all, inside, zeros);
      }
      return;
    }
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load_again>(logits, begin, row.all, inside, Maximum::identity(), tile);
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      const int64 column = begin + (i * config.threads + thread_index()) * shape.vector;
      NumberOf<options> values[shape.vector];
      tile[i].unpack(values);
      gradient_of_logits(params, row, scale, loss, gradient, column, values);
      RowFeatures<shape>::Edges::template store<Output, shape.vector, config.store>(dlogits, column, row.all, inside,
                                                                                    values);
    }
    // The same thread stored the vector that contains the target.
    const int64 position = target.column + row.shift;
    if (target.column >= 0 && begin <= position && position < begin + tile_elements<shape, config> &&
        static_cast<int>(position - begin) / shape.vector % config.threads == thread_index())
      store_element(dlogits + position, gradient.target(target_logit));
  });
}

// Policies for a row whose sums are known: finish<TargetType, shape, options, config>() is called by all threads of a block;
// the thread with `writes` stores the row's results.

/// Writes the partial of a vocabulary shard.
struct FinishPartial {
  template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
            const TiledConfig& config>
  static __device__ __forceinline__ void finish(const ParamsOf<options>& params, const Row<shape>& row,
                                                const Target<TargetType>& target, int, bool writes,
                                                const StoredPartial<options>& whole) {
    const NumberOf<options> target_weight = weight_of<options>(params, target.column);
    if (writes) write_partial<options>(params, row.index, whole.part, target.column >= 0, whole.target_logit, target_weight);
  }
};

/// Writes the loss.
struct FinishLoss {
  template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
            const TiledConfig& config>
  static __device__ __forceinline__ RowLoss<options> finish(const ParamsOf<options>& params, const Row<shape>& row,
                                                            const Target<TargetType>& target, int, bool writes,
                                                            const StoredPartial<options>& whole) {
    const NumberOf<options> target_weight = weight_of<options>(params, target.column);
    const RowLoss<options> loss(params, whole.part, whole.target_logit, target_weight, target.ignored, target.bad);
    if (writes) write_loss<TargetType, options>(params, row.index, target, loss, target.column);
    return loss;
  }
};

/// Writes the loss, and the gradient in a second pass over the row.
struct FinishGradient {
  template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
            const TiledConfig& config>
  static __device__ __forceinline__ void finish(const ParamsOf<options>& params, const Row<shape>& row,
                                                const Target<TargetType>& target, int part, bool writes,
                                                const StoredPartial<options>& whole) {
    const RowLoss<options> loss =
        FinishLoss::finish<Types, TargetType, shape, options, config>(params, row, target, part, writes, whole);
    cross_entropy_second_pass<Types, TargetType, shape, options, config>(params, row, target, part, whole.target_logit,
                                                                         loss);
  }
};

/// Processes one row per block.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config, typename Finish>
__device__ __forceinline__ void cross_entropy_two_pass(const ParamsOf<options>& params) {
  if constexpr (options.reduced) let_next_kernel_start();
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const FirstPass<TargetType, options> pass =
        cross_entropy_first_pass<Types, TargetType, shape, options, config>(params, row, part);
    Finish::template finish<Types, TargetType, shape, options, config>(params, row, pass.target, part, thread_index() == 0,
                                                                       pass.found);
  });
}

/// First kernel of several blocks per row: writes [rows][blocks_per_row] partials. Without a gradient, the second kernel
/// starts while the last blocks of this one run.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ void cross_entropy_split_sums(const ParamsOf<options>& params) {
  if constexpr (!options.gradient) let_next_kernel_start();
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const FirstPass<TargetType, options> pass =
        cross_entropy_first_pass<Types, TargetType, shape, options, config>(params, row, part);
    if (thread_index() == 0)
      static_cast<StoredPartial<options>*>(params.row.workspace)[index * config.blocks_per_row + part] = pass.found;
  });
}

/// Second kernel of several blocks per row: combines the partials. Without a gradient, one block per row does that.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config, typename Finish>
__device__ __forceinline__ void cross_entropy_split(const ParamsOf<options>& params) {
  const auto finish = [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const Target<TargetType> target(params, index, columns_of<shape>(params.row));
    const auto* const parts =
        static_cast<const StoredPartial<options>*>(params.row.workspace) + index * config.blocks_per_row;
    if constexpr (options.reduced && !options.gradient) let_next_kernel_start();
    if constexpr (!options.gradient) await_last_kernel();
    RunningCrossEntropy<shape, options> state;
    for (int i = thread_index(); i < config.blocks_per_row; i += config.threads) state.include(parts[i].part);
    BlockGroup<config.threads> group(nullptr, 0);
    const StoredPartial<options> whole = {state.over_group(group), parts[0].target_logit};
    Finish::template finish<Types, TargetType, shape, options, config>(params, row, target, part,
                                                                       part == 0 && thread_index() == 0, whole);
  };
  if constexpr (options.gradient) {
    over_parts<shape, config>(params.row, finish);
  } else if (block_index() < params.row.rows) {
    finish(block_index(), 0);
  }
}

}  // namespace tunesmith
