// Cross-entropy with the gradient of the logits in one read and one write, on the pipeline of row/schedules/pipeline.cuh:
// while the sums of one row are reduced, the next rows are already being loaded.
//
// Pass 1 replaces the target's logit by -inf and sums the exponentials. Pass 2 recomputes them from the logits in shared
// memory and writes the gradient; the target's is computed separately, with all digits of p - 1.
#pragma once

#include "cross_entropy/outcome.cuh"
#include "cross_entropy/target.cuh"
#include "row/schedules/pipeline.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// The options without the factor of the gradient, which the finisher loads once for all rows. A mean with two divisors
/// keeps it: every row needs their ratio.
template <const CrossEntropyOptions& options>
struct WithoutUpstream {
  static __device__ constexpr CrossEntropyOptions of(CrossEntropyOptions all) {
    all.mean = two_divisors<options>;
    all.upstream = Upstream::none;
    return all;
  }
  static constexpr CrossEntropyOptions value = of(options);
};

/// The producer's information about a row.
template <typename TargetType>
struct PipelineInfo {
  int64 row;  ///< -1: no more rows
  Target<TargetType> target;
  // Written after the copy of the row's last chunk.
  float target_logit;  ///< -inf unless the target is in this block's piece
  float target_weight;
  float upstream;  ///< upstream gradient of this row
};

/// Input of pass 2, for a row that has a loss.
struct alignas(16) PipelineResult {
  float largest;
  float per_exponential;
  float of_target;  ///< gradient of the target's logit
  float reserved;
};

/// Row data for produce_rows().
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options, typename Geometry,
          typename Control>
struct PipelineSource {
  using Input = typename Types::Input;

  const CrossEntropyParams& params;
  Control& control;
  int first_byte;   ///< start of this block's piece
  int piece_bytes;  ///< size of this block's piece
  int64 column = -1;
  TargetElement<Input> element = {};
  Bits<4> weight = {}, upstream = {};
  bool here = false;  ///< the target is in this piece

  __device__ __forceinline__ PipelineSource(const CrossEntropyParams& all_params, Control& all_control, int rank)
      : params(all_params),
        control(all_control),
        first_byte(rank * Geometry::piece),
        piece_bytes(Geometry::piece_of(rank)) {}

  __device__ __forceinline__ const char* source(int64 row, int = 0) const {
    const auto* const logits = static_cast<const Input*>(params.row.input[0]) + row * params.row.input_stride[0];
    return reinterpret_cast<const char*>(logits) + first_byte;
  }
  __device__ __forceinline__ void ask(int64 row) const {
    load<static_cast<int>(sizeof(TargetType)), LoadHint::plain>(static_cast<const TargetType*>(params.targets) + row);
  }
  __device__ __forceinline__ void about(int place, int64 row) {
    auto& info = control.info[place];
    info.row = row;
    if (row < 0) return;
    const Target<TargetType> target(params, row, shape.cols);
    info.target = target;
    column = target.column;
  }
  __device__ __forceinline__ void begun(int64 row) {
    const int64 at = column * static_cast<int64>(sizeof(Input)) - first_byte;
    here = column >= 0 && at >= 0 && at < piece_bytes;
    element.ask(here, reinterpret_cast<const Input*>(source(row) + at));
    const bool has_weight = options.weights && column >= 0;
    weight = Bits<4>{{bits_of(1.0f)}};
    if constexpr (options.weights) weight = load_if<4, LoadHint::plain>(has_weight, params.weight + column, weight);
    if constexpr (options.upstream == Upstream::row)
      upstream = load<4, LoadHint::plain>(params.upstream + row);
    else
      upstream = Bits<4>{{bits_of(1.0f)}};
  }
  __device__ __forceinline__ void ended(int place) {
    auto& info = control.info[place];
    info.target_logit = element.value(LogitScale<options>(params), here);
    info.target_weight = float_of(weight.word[0]);
    info.upstream = float_of(upstream.word[0]);
  }
};

/// Runs the finisher in one warp: combines the workers' partials, row by row. `options` is WithoutUpstream of all_options.
template <typename TargetType, const RowShape& shape, const CrossEntropyOptions& all_options,
          const CrossEntropyOptions& options, const PipelineConfig& config, typename Geometry, typename Control>
__device__ __forceinline__ void finish_rows(const CrossEntropyParams& params, Control& control, const Tickets& tickets,
                                            int rank) {
  using Partial = PartialOf<options>;
  using State = RunningCrossEntropy<shape, options>;
  constexpr int blocks = config.blocks_per_row;
  const int lane = lane_index();
  float of_all = 1.0f;
  if constexpr (all_options.upstream == Upstream::scalar) of_all = params.upstream[0];
  if constexpr (all_options.mean && !options.mean) of_all = divide(of_all, divisor_of_mean<all_options>(params));

  for (int k = 0;; ++k) {
    const ResultPlace<Geometry::results> place(k);
    // Take the ticket now; it is needed when the partials have arrived. The last ticket is unused.
    int ticket = 0;
    if (rank == 0 && lane == 0) ticket = tickets.take(1);
    barrier_wait(shared_address(&control.found[place.index]), place.parity);
    const auto& info = control.info[place.index];
    const int64 row = info.row;
    if (row < 0) break;
    const Target<TargetType> target = info.target;
    float target_logit = info.target_logit;
    const float target_weight = info.target_weight;
    const float upstream = all_options.upstream == Upstream::row ? info.upstream : of_all;

    Partial part = control.parts[place.index][lane % config.warps];
    {
      LaneGroup<32, config.warps> warps(nullptr, 0);
      State state;
      state.include(part);
      part = state.over_group(warps);
    }
    if constexpr (blocks > 1) {
      const auto record = exchange_records<blocks>(control, place.index, place.parity, rank, bits_of(part.largest),
                                                   bits_of(part.sum_excluding_max), bits_of(target_logit), ticket);
      target_logit = reduce_lanes<blocks>(float_of(record.word[2]), Maximum());
      LaneGroup<32, blocks> all(nullptr, 0);
      State state;
      state.include(Partial{float_of(record.word[0]), float_of(record.word[1])});
      state.raise_to(maximum_or_nan(state.largest, target_logit));
      part = state.over_group(all);
    } else {
      State state;
      state.include(part);
      state.raise_to(maximum_or_nan(state.largest, target_logit));
      part = state.part();
    }
    const RowLoss<options> loss(params, part, target_logit, target_weight, target.ignored, target.bad);
    const CrossEntropyGradient<shape, options> gradient(params, loss, GradientScale<options>(params, row), target.counts());
    if (lane == 0) {
      control.result[place.index] = {part.largest, multiply(gradient.per_exponential, upstream),
                                     target.counts() ? multiply(gradient.target(target_logit), upstream) : 0.0f, 0.0f};
      control.ticket[(k + tickets.ahead) % Geometry::results] = ticket;
      barrier_arrive(shared_address(&control.announced[place.index]));
      if (rank == 0) write_loss<TargetType, options>(params, row, target, loss, target.column);
    }
    sync_warp();
  }
  const int64 clusters = grid_blocks() / blocks;
  if (rank == 0 && lane == 0) tickets.done(clusters);
}

/// A worker warp; all 32 lanes together.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const PipelineConfig& config, typename Control>
struct PipelineWorker {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Geometry = Pipeline<Input, shape, config>;
  using Vector = Packed<Input, shape.vector>;
  static constexpr int per_lane = Geometry::per_lane;

  /// State of a row between its two passes.
  struct ResidentRow {
    int64 row;
    int target;  ///< byte offset from this warp's slice of the first chunk; far_off if the target is not in this piece
    bool counts;
  };
  static constexpr int far_off = -0x40000000;

  const CrossEntropyParams& params;
  Control& control;
  const LogitScale<options> scale;
  int first_byte, piece, warp;
  PartsOfChunks<Input, shape, config> once, again;

  __device__ __forceinline__ PipelineWorker(const CrossEntropyParams& all_params, Control& all_control, uint32 ring,
                                            int rank, int warp_number)
      : params(all_params),
        control(all_control),
        scale(all_params),
        first_byte(rank * Geometry::piece),
        piece(Geometry::piece_of(rank)),
        warp(warp_number),
        once(ring, warp_number),
        again(ring, warp_number) {}

  /// Calls change(i, j) in the lane that holds the element at byte offset `byte` of this warp's slice.
  template <typename Change>
  __device__ __forceinline__ static void at_element(int byte, const Change& change) {
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
      const int element = byte / static_cast<int>(sizeof(Input)) - (i * 32 + lane_index()) * shape.vector;
      if (element >= 0 && element < shape.vector) change(i, element);
    }
  }
  /// Returns whether the element is within the first `count` vectors.
  __device__ __forceinline__ static bool among(int byte, int count) {
    return byte >= 0 && byte < count * Geometry::vector_bytes;
  }

  __device__ __forceinline__ ResidentRow first_pass(int k) {
    const ResultPlace<Geometry::results> place(k);
    RunningCrossEntropy<shape, options> state;
    ResidentRow resident = {-1, far_off, false};
#pragma unroll 1
    for (int c = 0; c < Geometry::chunks; ++c) {
      barrier_wait(shared_address(&control.full[once.stage.index]), once.stage.parity);
      if (c == 0) {
        const auto& info = control.info[place.index];
        resident.row = info.row;
        if (resident.row < 0) break;
        const int64 at = info.target.column * static_cast<int64>(sizeof(Input)) - first_byte;
        if (info.target.column >= 0 && at >= 0 && at < piece)
          resident.target = static_cast<int>(at) - once.begin * Geometry::vector_bytes;
        resident.counts = info.target.counts();
      }
      Vector vectors[per_lane];
      once.load(piece - c * Geometry::chunk, vectors);
      const int target = resident.target - c * Geometry::chunk;
      if (among(target, once.count)) {
        at_element(target, [&](int i, int element) {
          float values[shape.vector];
          vectors[i].unpack(values);
#pragma unroll
          for (int j = 0; j < shape.vector; ++j) values[j] = j == element ? Maximum::identity() : values[j];
          vectors[i].pack_from(values);
        });
      }
      include(state, vectors);
      once.stage.next();
    }
    LaneGroup<32, 32> lanes(nullptr, 0);
    const PartialOf<options> part = state.over_group(lanes);
    if (lane_index() == 0) {
      control.parts[place.index][warp] = part;
      barrier_arrive(shared_address(&control.found[place.index]));
    }
    sync_warp();
    return resident;
  }

  __device__ __forceinline__ void include(RunningCrossEntropy<shape, options>& state, Vector (&vectors)[per_lane]) const {
    constexpr bool packed = sizeof(Input) == 2 && LogitScale<options>::plain;
    float highest = Maximum::identity();
    if constexpr (packed) {
      PackedMaximum<Input> packed_highest;
#pragma unroll
      for (int i = 0; i < per_lane; ++i) packed_highest.include(vectors[i]);
      highest = packed_highest.value();
    }
    if constexpr (!packed) {
#pragma unroll
      for (int i = 0; i < per_lane; ++i) {
        float values[shape.vector];
        vectors[i].unpack(values);
        highest = maximum_or_nan(highest, largest_of(values));
      }
      highest = scale(highest);  // monotonic
    }
    // Tolerate a slightly stale maximum: exact ones would make the warp diverge whenever one lane finds a larger logit.
    constexpr float slack = 10.0f;
    if (!(highest <= add(state.largest, slack))) state.raise_to(maximum_or_nan(state.largest, highest));
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
      float values[shape.vector];
      vectors[i].unpack(values);
      scale.apply(values);
      sum = add(sum, exponentiate<shape.vector>(state.exponential, values));
    }
    state.sum_excluding_max.include(sum);
  }

  __device__ __forceinline__ void second_pass(int k, const ResidentRow& resident) {
    const ResultPlace<Geometry::results> place(k);
    barrier_wait(shared_address(&control.announced[place.index]), place.parity);
    const PipelineResult result = control.result[place.index];
    const LogitExponential exponential(result.largest);
    const uint32 kept = resident.counts ? ~0u : 0u;  // writes zeros for rows without a loss, whatever their logits
    Output* const dlogits = static_cast<Output*>(params.row.output) + resident.row * params.row.output_stride +
                            first_byte / static_cast<int>(sizeof(Input)) + (again.begin + lane_index()) * shape.vector;
#pragma unroll 1
    for (int c = 0; c < Geometry::chunks; ++c) {
      Vector vectors[per_lane];
      again.load(piece - c * Geometry::chunk, vectors);
      sync_warp();
      if (lane_index() == 0) barrier_arrive(shared_address(&control.empty[again.stage.index]));
      Output* const to = dlogits + c * (Geometry::chunk / static_cast<int>(sizeof(Input)));
      const int target = resident.target - c * Geometry::chunk;
      const bool has_target = among(target, again.count);
#pragma unroll
      for (int i = 0; i < per_lane; ++i) {
        float values[shape.vector];
        vectors[i].unpack(values);
        scale.apply(values);
#pragma unroll
        for (int j = 0; j < shape.vector; ++j) {
          const float logit = values[j];
          values[j] = multiply(exponential(logit), result.per_exponential);
          if constexpr (!LogitScale<options>::plain) values[j] = multiply(values[j], scale.slope(logit));
        }
        if (has_target) {
          const int element = target / static_cast<int>(sizeof(Input)) - (i * 32 + lane_index()) * shape.vector;
#pragma unroll
          for (int j = 0; j < shape.vector; ++j) values[j] = j == element ? result.of_target : values[j];
        }
        if (again.holds(i)) {
          Packed<Output, shape.vector> packed;
          packed.pack_from(values);
#pragma unroll
          for (int a = 0; a < packed.accesses; ++a) {
#pragma unroll
            for (int j = 0; j < packed.access_bytes / 4; ++j) packed.access[a].word[j] &= kept;
            store<Packed<Output, shape.vector>::access_bytes, config.store>(
                reinterpret_cast<char*>(to + i * 32 * shape.vector) + a * packed.access_bytes, packed.access[a]);
          }
        }
      }
      again.stage.next();
    }
  }
};

/// `Types` has Input (of logits) and Output (of dlogits). The workspace starts with the two words of Tickets.
template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const PipelineConfig& config>
__device__ __forceinline__ void cross_entropy_pipeline(const CrossEntropyParams& params) {
  static_assert(options.gradient && !options.shard && !options.smoothing && !options.argmax, "a part is two floats");
  if constexpr (options.reduced) let_next_kernel_start();
  using Input = typename Types::Input;
  using Geometry = Pipeline<Input, shape, config>;
  using Control = PipelineControl<Geometry, config, PipelineInfo<TargetType>, PartialOf<options>, PipelineResult>;
  run_pipeline<Geometry, config, Control>(
      params.row,
      [&](Control& control, uint32 ring, const Tickets& tickets, int rank) {
        PipelineSource<Types, TargetType, shape, options, Geometry, Control> source(params, control, rank);
        produce_rows<Geometry, config>(control, ring, tickets, rank, source);
      },
      [&](Control& control, const Tickets& tickets, int rank) {
        finish_rows<TargetType, shape, options, WithoutUpstream<options>::value, config, Geometry>(params, control, tickets,
                                                                                                   rank);
      },
      [&](Control& control, uint32 ring, int rank, int warp) {
        PipelineWorker<Types, TargetType, shape, options, config, Control> worker(params, control, ring, rank, warp);
        work_on_rows<config.ahead>(worker);
      });
}

}  // namespace tunesmith

#endif
