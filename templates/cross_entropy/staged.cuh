// Cross-entropy of rows that pass through shared memory: cross_entropy/resident.cuh for rows that are so short that the
// instructions for a whole row count, such as its logarithm.
//
// The lanes of a row reduce its maximum and sum and write the gradient. Everything else is done by one lane for each row: it
// loads the target, replaces the target's logit by -inf before the reductions, keeps their results, and then computes and
// stores the loss. Each lane of a warp has a row of its own for that, so 32 rows cost as many instructions as one.
#pragma once

#include "cross_entropy/outcome.cuh"
#include "row/schedules/hybrid_row.cuh"
#include "row/schedules/staged.cuh"

namespace tunesmith {

/// The rows of a warp, counted from the first row of its block. The warp processes `at_once` neighbouring rows in a round.
/// In a batch of as many rounds as a row has lanes, lane i of a row has the row of round i of the batch as its own.
template <typename Group>
struct WarpRows {
  static constexpr int lanes = Group::group_size;
  static constexpr int at_once = 32 / lanes;
  static constexpr int rounds = Group::block_rows / Group::rows_at_once;
  static constexpr int rounds_per_batch = rounds < lanes ? rounds : lanes;

  int first;     ///< row of the first round for this lane
  int existing;  ///< rows of the block

  __device__ __forceinline__ explicit WarpRows(int rows_of_block)
      : first(warp_index() * (at_once * rounds) + lane_index() / lanes), existing(rows_of_block) {}

  /// Returns whether the warp has rows in a round.
  __device__ __forceinline__ bool has(int round) const {
    return round < rounds && warp_index() * (at_once * rounds) + round * at_once < existing;
  }
  __device__ __forceinline__ int row(int round) const { return first + round * at_once; }
  __device__ __forceinline__ bool exists(int round) const { return round < rounds && row(round) < existing; }

  /// Returns the value of the lane that owns the row of round `i` of the batch.
  template <typename Value>
  static __device__ __forceinline__ Value of_owner(Value value, int i) {
    if constexpr (lanes == 1) return value;
    return shuffle(value, lane_index() / lanes * lanes + i);
  }
};

/// A row without a loss: its target is ignored or invalid. Other rows have the target's column instead, or -1.
constexpr int without_loss = -2;

/// Values that a lane loads for its own row before the reductions.
template <typename TargetType, const CrossEntropyOptions& options>
struct OwnRow {
  using Number = NumberOf<options>;
  Target<TargetType> target;
  Number target_weight;
  Number target_logit;  ///< scaled and capped; -inf if the row has no target
  Number dloss = 1.0f;  ///< if there is one per row

  __device__ __forceinline__ OwnRow(const ParamsOf<options>& params, int64 row, int64 cols)
      : target(params, row, cols),
        target_weight(weight_of<options>(params, target.column)),
        target_logit(Maximum::identity()) {
    if constexpr (options.gradient && options.upstream == Upstream::row) dloss = params.upstream[row];
  }
  /// Loads the target's logit and replaces it in shared memory by -inf.
  template <const RowShape& shape, typename Input>
  __device__ __forceinline__ void take_target(Input* logits, const LogitScale<options>& scale) {
    if (target.column < 0) return;
    Input* const address = logits + static_cast<int>(target.column);
    Compute<Input> logit[1];
    reinterpret_cast<const Packed<Input, 1>*>(address)->unpack(logit);
    target_logit = scale(logit[0]);
    store_element_of<shape>(address, Maximum::identity());
  }
  __device__ __forceinline__ int column() const { return target.counts() ? static_cast<int>(target.column) : without_loss; }
};

/// The factors that all rows share. Takes the place of GradientScale, which divides for each row.
template <const CrossEntropyOptions& options>
struct StagedGradientScale {
  using Number = NumberOf<options>;
  Number divisor, common, ratio;

  __device__ __forceinline__ explicit StagedGradientScale(const ParamsOf<options>& params)
      : divisor(1.0f), common(1.0f), ratio(1.0f) {
    if constexpr (options.mean) divisor = divisor_of_mean<options>(params);
    if constexpr (options.upstream == Upstream::scalar) common = params.upstream[0];
    if constexpr (options.mean) common = divide(common, divisor);
    if constexpr (two_divisors<options>) ratio = divide(divisor, scratch(params, params.totals)[2]);
  }
  /// The factors of one row.
  struct OfRow {
    Number upstream, ratio;
    __device__ __forceinline__ Number value() const { return upstream; }
    __device__ __forceinline__ Number z_ratio() const { return ratio; }
  };
  __device__ __forceinline__ OfRow of_row(Number dloss) const {
    if constexpr (options.upstream != Upstream::row) return {common, ratio};
    return {options.mean ? divide(dloss, divisor) : dloss, ratio};
  }
};

/// Returns the values for the gradients of a row's classes, except the target's. Only z_loss needs the logarithm.
template <const CrossEntropyOptions& options>
__device__ __forceinline__ RowLoss<options> loss_for_gradient(const ParamsOf<options>& params,
                                                              const ExponentialOf<options>& exponential,
                                                              const PartialOf<options>& part, NumberOf<options> target_logit,
                                                              NumberOf<options> target_weight) {
  if constexpr (options.z_loss)
    return RowLoss<options>(params, part, target_logit, target_weight, false, false);
  else
    return RowLoss<options>(exponential, part, target_logit, target_weight);
}

/// The maximum of a row's elements as they are loaded. Two accumulators for short chains; pairs of 16 bits in one operation.
template <typename Input, int vector, bool packed = (sizeof(Input) == 2 && vector > 1)>
struct LargestOfVectors {
  Compute<Input> largest[2] = {Maximum::identity(), Maximum::identity()};

  __device__ __forceinline__ void include(int i, const Packed<Input, vector>& loaded) {
    Compute<Input> values[vector];
    loaded.unpack(values);
    largest[i % 2] = maximum_or_nan(largest[i % 2], largest_of(values));
  }
  __device__ __forceinline__ Compute<Input> value() const { return maximum_or_nan(largest[0], largest[1]); }
};
template <typename Input, int vector>
struct LargestOfVectors<Input, vector, true> {
  PackedMaximum<Input> largest[2];

  __device__ __forceinline__ void include(int i, const Packed<Input, vector>& loaded) { largest[i % 2].include(loaded); }
  __device__ __forceinline__ float value() const { return maximum_or_nan(largest[0].value(), largest[1].value()); }
};

template <const RowShape& shape, const ResidentConfig& config, int lanes>
struct PairsConfig {
  static constexpr ResidentConfig value = {vectors_per_thread<AsPairs<shape>::value, lanes>, 0, config.load, config.store};
};

/// `Types` has Input (of logits) and Output (of dlogits). `params` has the addresses of rows in shared memory. `place` has
/// the rows as one lane accesses their elements, `shape` and `config` as all lanes of a row do.
template <typename Types, typename TargetType, const RowShape& place, const RowShape& shape,
          const CrossEntropyOptions& options, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void cross_entropy_of_staged_rows(const ParamsOf<options>& params) {
  using Number = NumberOf<options>;
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Partial = PartialOf<options>;
  using Rows = WarpRows<Group>;
  constexpr int vector = shape.vector;
  using ResidentRow = typename Storage::template Row<Input, shape, config, Group>;
  constexpr int vectors = ResidentRow::vectors;
  // Exponentials replace the resident logits if possible and if nothing needs the logits later.
  constexpr bool keeps_logits = !options.gradient || !LogitScale<options>::plain;
  static_assert(config.shared_vectors == 0, "rows are in registers");

  const int64 first_row = block_index() * Group::block_rows;
  const int64 left = params.row.rows - first_row;
  if (left <= 0) return;
  const Rows rows(left < Group::block_rows ? static_cast<int>(left) : Group::block_rows);
  Group group(params.row.workspace, params.row.groups);
  const int thread_rank = group.thread_rank();
  const LogitScale<options> scale(params);
  if constexpr (options.reduced) let_next_kernel_start();
  const StagedGradientScale<options> by(params);

#pragma unroll 1
  for (int batch = 0; rows.has(batch); batch += Rows::lanes) {
    const int own_round = batch + thread_rank;
    const bool own_exists = rows.exists(own_round);
    const int64 own_index = first_row + (own_exists ? rows.row(own_round) : 0);
    const Row<place> own_place(params.row, own_index, static_cast<const Input*>(nullptr));
    OwnRow<TargetType, options> own(params, own_index, columns_of<shape>(params.row));
    if (own_exists)
      own.template take_target<place>(const_cast<Input*>(own_place.template input<Input>(params.row, 0)), scale);
    sync_warp();

    Partial own_part = {};
#pragma unroll 1
    for (int i = 0; i < Rows::rounds_per_batch && rows.has(batch + i); ++i) {
      // Lanes without a row repeat the last one, in which they may find results.
      const bool exists = rows.exists(batch + i);
      const int64 index = first_row + (exists ? rows.row(batch + i) : rows.existing - 1);
      const Row<shape> row = staged_row<shape, Input>(params.row, index);
      const Number target_logit = Rows::of_owner(own.target_logit, i);
      const int column_of_target =
          options.gradient || options.smoothing || options.argmax ? Rows::of_owner(own.column(), i) : 0;
      const int position = column_of_target + (column_of_target >= 0 ? row.shift : 0);
      ResidentRow resident(nullptr);
      LargestOfVectors<Input, vector> largest;
      const Input* const logits = row.template input<Input>(params.row, 0) - row.shift;
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        if constexpr (leaves_early<shape>)
          if (beyond_row<shape, Group::group_size>(row.all.end, v)) break;
        const auto loaded =
            load_staged<Input, shape, Group::group_size>(logits, v, thread_rank, row.seen, Maximum::identity());
        resident.registers[v].hold(loaded);
        largest.include(v, loaded);
      }

      Partial part;
      part.largest = group.template reduce<0>(scale(largest.value()), Maximum());
      part.largest = maximum_or_nan(part.largest, target_logit);
      const Number under = part.largest == Maximum::identity() ? 0.0f : part.largest;
      const ExponentialOf<options> exponential(under);

      SumOfTrees<SumOf<(vectors > 4), Number>, Number, 4> sum_excluding_max;
      Number below = 0.0f, weights = 0.0f;
      int first = column_of_target >= 0 && is_largest(target_logit, part.largest) ? column_of_target : no_column;
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        if constexpr (shape.min_cols > 0) {
          if (beyond_row<shape, Group::group_size>(row.all.end, v)) break;
        }
        Number values[vector];
        resident.get(v, values);
        scale.apply(values);
        const int64 column = column_of<shape, Group::group_size>(v, thread_rank);
        if constexpr (options.smoothing)
          include_below<shape, options>(params, row, column, position, under, values, below, weights);
        if constexpr (options.argmax) first = First()(first, first_largest(row, column, part.largest, values));
#pragma unroll
        for (int j = 0; j < vector; ++j) {
          values[j] = exponential(values[j]);
          sum_excluding_max.include(values[j]);
        }
        if (ResidentRow::exact(v) && !keeps_logits) resident.put(v, values);
      }
      part.sum_excluding_max = group.template reduce<1>(sum_excluding_max.value(), Sum());
      if constexpr (options.smoothing) {
        const auto sums = group.template reduce<4>(PairOf<Number>{below, weights}, SumOfEach<Number>());
        part.below = sums.first;
        part.weights = sums.second;
      }
      if constexpr (options.argmax) part.index = group.template reduce<5>(first, First());
      if (i == thread_rank || Rows::lanes == 1) own_part = part;

      if constexpr (options.gradient) {
        const auto factors = by.of_row(options.upstream == Upstream::row ? Rows::of_owner(own.dloss, i) : 1.0f);
        const Number target_weight = options.weights ? Rows::of_owner(own.target_weight, i) : 1.0f;
        if (!exists) continue;
        Output* const dlogits = row.template output<Output>(params.row) - row.shift;
        if (column_of_target == without_loss) {  // write zeros whatever the logits are
#pragma unroll
          for (int v = 0; v < vectors; ++v) {
            if constexpr (leaves_early<shape>)
              if (beyond_row<shape, Group::group_size>(row.all.end, v)) break;
            const Compute<Output> zeros[vector] = {};
            store_staged<Output, shape, Group::group_size>(dlogits, v, thread_rank, row, zeros);
          }
          continue;
        }
        const RowLoss<options> loss = loss_for_gradient<options>(params, exponential, part, target_logit, target_weight);
        const CrossEntropyGradient<shape, options> gradient(params, loss, factors, true);
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          if constexpr (shape.min_cols > 0) {
            if (beyond_row<shape, Group::group_size>(row.all.end, v)) break;
          }
          Number values[vector];
          resident.get(v, values);
          const int64 column = column_of<shape, Group::group_size>(v, thread_rank);
          if (!ResidentRow::exact(v) || keeps_logits)
            gradient_of_logits(params, row, scale, loss, gradient, column, values);
          else
            gradient.compute(params, row, column, values, values);
          store_staged<Output, shape, Group::group_size>(dlogits, v, thread_rank, row, values);
        }
      }
    }

    if constexpr (options.gradient) sync_warp();  // the lanes of a row have stored what its owner replaces
    if (!own_exists) continue;
    if constexpr (options.shard) {
      write_partial<options>(params, own_index, own_part, own.target.column >= 0, own.target_logit, own.target_weight);
    } else {
      const RowLoss<options> loss(params, own_part, own.target_logit, own.target_weight, own.target.ignored, own.target.bad);
      write_loss<TargetType, options>(params, own_index, own.target, loss, own.target.column);
      if constexpr (options.gradient) {
        const CrossEntropyGradient<shape, options> gradient(params, loss, by.of_row(own.dloss), own.target.counts());
        if (own.target.column >= 0)
          store_element_of<place>(own_place.template output<Output>(params.row) + static_cast<int>(own.target.column),
                                  gradient.target(own.target_logit));
      }
    }
  }
}

/// Takes the place of cross_entropy/resident.cuh. Accesses 16-bit elements as pairs, wherever rows start.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void cross_entropy_resident(const ParamsOf<options>& params) {
  constexpr bool narrow = sizeof(typename Types::Input) == 2 && (!options.gradient || sizeof(typename Types::Output) == 2);
  if constexpr (narrow && shape.vector == 1)
    cross_entropy_of_staged_rows<Types, TargetType, shape, AsPairs<shape>::value, options,
                                 PairsConfig<shape, config, Group::group_size>::value, Group, Storage>(params);
  else
    cross_entropy_of_staged_rows<Types, TargetType, shape, shape, options, config, Group, Storage>(params);
}

}  // namespace tunesmith
