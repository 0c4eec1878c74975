// Cross-entropy of rows that do not wait on the chip. The loss alone takes one read whatever the length: a block, or several
// that share a row, keep running sums. With the gradient the logits are read twice, the second time from the L2 cache where
// they still lie there.
#pragma once

#include "cross_entropy/outcome.cuh"
#include "cross_entropy/target.cuh"
#include "row/tiles.cuh"

namespace tunesmith {

/// What a block leaves for the second kernel: its part, and the target's logit, which that kernel may overwrite.
template <const CrossEntropyOptions& options>
struct StoredPartial {
  PartialOf<options> part;
  float target_logit;
};

/// The element `at` of a tile becomes -inf.
template <const RowShape& shape, const TiledConfig& config, typename Input>
__device__ __forceinline__ void take_out(int at, Packed<Input, shape.vector> (&tile)[config.unroll]) {
#pragma unroll
  for (int i = 0; i < config.unroll; ++i) {
    const int element = at - (i * config.threads + thread_index()) * shape.vector;
    if (element < 0 || element >= shape.vector) continue;
    float values[shape.vector];
    tile[i].unpack(values);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = j == element ? Maximum::identity() : values[j];
    tile[i].pack_from(values);
  }
}

/// A row's target, and what a block found in its part of the row.
template <typename TargetType, const CrossEntropyOptions& options>
struct FirstPass {
  Target<TargetType> target;
  StoredPartial<options> found;
};

/// The sums over a block's part of a row, the target's logit left out.
///
/// The first tile is asked for before the target is, and the target before its logit: neither keeps the block from loading.
/// With few large blocks on a multiprocessor nobody else would in that time.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ FirstPass<TargetType, options> cross_entropy_first_pass(const CrossEntropyParams& params,
                                                                                   const Row<shape>& row, int part) {
  using Input = typename Types::Input;
  constexpr int64 elements = tile_elements<shape, config>;
  const LogitScale<options> scale(params);
  const Input* const logits = row.template input<Input>(params.row, 0);
  const int64 first = part * part_elements<shape, config>;
  const int64 part_end = first + part_elements<shape, config>;
  const int64 end = row.all.end < part_end ? row.all.end : part_end;
  const int64 inside_end = end < shape.cols ? end : shape.cols;
  // Tiles are counted in 32 bits and addressed by one pointer: registers decide how many blocks share a multiprocessor.
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
  const Target<TargetType> target(params, row.index, shape.cols);
  const int64 position = target.column >= 0 ? target.column + row.shift : -1;
  TargetElement<Input> target_element;
  auto to_target = static_cast<uint32>(position - first);  // from the tile's first element; what is before it is far behind

  RunningCrossEntropy<shape, options> state;
#pragma unroll 1
  for (int number = 0;;) {
    if (to_target < static_cast<uint32>(elements)) take_out<shape, config>(static_cast<int>(to_target), tile);
    to_target -= static_cast<uint32>(elements);
    float values[config.unroll][shape.vector];
    int64 columns[config.unroll];
    float highest = Maximum::identity();
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
    // Once, when the first tile is done with and the target has come.
    target_element.ask(number == 0 && position >= 0, logits + position);
    if (++number >= tiles) break;
    load_next(number);
  }

  StoredPartial<options> result;
  result.target_logit = target_element.value(scale, position >= 0);
  BlockGroup<config.threads> group(nullptr, 0);
  // The block that has the target's column makes it count for the maximum and the first class that has it.
  state.raise_to(maximum_or_nan(state.largest, result.target_logit));
  if constexpr (options.argmax)
    if (position >= 0 && is_largest(result.target_logit, state.largest))
      state.index = First()(state.index, static_cast<int>(target.column));
  result.part = state.over_group(group);
  return {target, result};
}

/// Reads a block's part of a row again and writes its gradient.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ void cross_entropy_second_pass(const CrossEntropyParams& params, const Row<shape>& row,
                                                          const Target<TargetType>& target, int part, float target_logit,
                                                          const RowLoss<options>& loss) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  const LogitScale<options> scale(params);
  const CrossEntropyGradient<shape, options> gradient(params, loss, GradientScale<options>(params, row.index),
                                                      target.counts());
  const Input* const logits = row.template input<Input>(params.row, 0);
  Output* const dlogits = row.template output<Output>(params.row);
  over_tiles<shape, config, true>(part, row.all.end, [&](bool inside, int64 begin) {
    if (!target.counts()) {  // whatever its logits are
#pragma unroll
      for (int i = 0; i < config.unroll; ++i) {
        const float zeros[shape.vector] = {};
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
      float values[shape.vector];
      tile[i].unpack(values);
      gradient_of_logits(params, row, scale, loss, gradient, column, values);
      RowFeatures<shape>::Edges::template store<Output, shape.vector, config.store>(dlogits, column, row.all, inside,
                                                                                    values);
    }
    // After the vector that it lies in, by the same thread.
    const int64 position = target.column + row.shift;
    if (target.column >= 0 && begin <= position && position < begin + tile_elements<shape, config> &&
        static_cast<int>(position - begin) / shape.vector % config.threads == thread_index())
      store_element(dlogits + position, gradient.target(target_logit));
  });
}

// What becomes of a row whose sums are known, as types with finish<TargetType, shape, options, config>(), which every thread
// of a block calls; `writes`: this thread writes the row's results.

/// A part of a shard of the vocabulary.
struct FinishPartial {
  template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
            const TiledConfig& config>
  static __device__ __forceinline__ void finish(const CrossEntropyParams& params, const Row<shape>& row,
                                                const Target<TargetType>& target, int, bool writes,
                                                const StoredPartial<options>& whole) {
    const float target_weight = weight_of<options>(params, target.column);
    if (writes) write_partial<options>(params, row.index, whole.part, target.column >= 0, whole.target_logit, target_weight);
  }
};

/// A loss.
struct FinishLoss {
  template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
            const TiledConfig& config>
  static __device__ __forceinline__ RowLoss<options> finish(const CrossEntropyParams& params, const Row<shape>& row,
                                                            const Target<TargetType>& target, int, bool writes,
                                                            const StoredPartial<options>& whole) {
    const float target_weight = weight_of<options>(params, target.column);
    const RowLoss<options> loss(params, whole.part, whole.target_logit, target_weight, target.ignored, target.bad);
    if (writes) write_loss<TargetType, options>(params, row.index, target, loss, target.column);
    return loss;
  }
};

/// A loss, and its gradient in a second pass over the row.
struct FinishGradient {
  template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
            const TiledConfig& config>
  static __device__ __forceinline__ void finish(const CrossEntropyParams& params, const Row<shape>& row,
                                                const Target<TargetType>& target, int part, bool writes,
                                                const StoredPartial<options>& whole) {
    const RowLoss<options> loss =
        FinishLoss::finish<Types, TargetType, shape, options, config>(params, row, target, part, writes, whole);
    cross_entropy_second_pass<Types, TargetType, shape, options, config>(params, row, target, part, whole.target_logit,
                                                                         loss);
  }
};

/// One block per row.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config, typename Finish>
__device__ __forceinline__ void cross_entropy_two_pass(const CrossEntropyParams& params) {
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const FirstPass<TargetType, options> pass =
        cross_entropy_first_pass<Types, TargetType, shape, options, config>(params, row, part);
    Finish::template finish<Types, TargetType, shape, options, config>(params, row, pass.target, part, thread_index() == 0,
                                                                       pass.found);
  });
}

/// Many blocks per row, first kernel: leaves [rows][blocks_per_row] parts.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ void cross_entropy_split_sums(const CrossEntropyParams& params) {
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const FirstPass<TargetType, options> pass =
        cross_entropy_first_pass<Types, TargetType, shape, options, config>(params, row, part);
    if (thread_index() == 0)
      static_cast<StoredPartial<options>*>(params.row.workspace)[index * config.blocks_per_row + part] = pass.found;
  });
}

/// Many blocks per row, second kernel: puts the parts together. Without a gradient one block does that for a row.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config, typename Finish>
__device__ __forceinline__ void cross_entropy_split(const CrossEntropyParams& params) {
  const auto finish = [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const Target<TargetType> target(params, index, shape.cols);
    const auto* const parts =
        static_cast<const StoredPartial<options>*>(params.row.workspace) + index * config.blocks_per_row;
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
