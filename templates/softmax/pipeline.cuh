// Softmax and log_softmax in one read and one write of rows that stream through shared memory, on the pipeline of
// row/schedules/pipeline.cuh: while the sums of one row are reduced, the next rows are already being loaded.
//
// Pass 1 computes the maximum and the sums online; pass 2 computes the result from the elements in shared memory.
#pragma once

#include "row/mask.cuh"
#include "row/schedules/streamed_rows.cuh"
#include "softmax/log_softmax.cuh"
#include "softmax/running.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// A worker warp; all 32 lanes together.
template <typename Types, const RowShape& shape, const PipelineConfig& config, typename Control>
struct SoftmaxWorker : RowWorker<Types, shape, config, 1, Control> {
  using Worker = RowWorker<Types, shape, config, 1, Control>;
  using typename Worker::Input;
  using typename Worker::ResidentRow;
  using typename Worker::Vector;
  using Worker::per_lane;
  using Function = typename RowFeatures<shape>::Function;
  using Worker::Worker;

  __device__ __forceinline__ ResidentRow first_pass(int k) {
    RunningSoftmax<shape> state(this->params);
    return this->read(
        k,
        [&](int bytes_left) {
          Vector vectors[per_lane];
          this->once.load(bytes_left, vectors);
          include(state, vectors);
        },
        [&] { return over_group(LaneGroup<32, 32>(nullptr, 0), state); });
  }
  __device__ __forceinline__ void second_pass(int k, ResidentRow resident) {
    const SoftmaxPartial<shape> all = this->result_of(k);
    const typename Function::template Result<shape> result(this->params, all.largest, {all.sum, all.max_count});
    this->write(resident, [&](float(&values)[1][shape.vector]) { result.compute(values[0]); });
  }

  /// Adds a chunk's vectors. The lanes of a warp share their maximum, so that they do not diverge when it grows.
  static __device__ __forceinline__ void include(RunningSoftmax<shape>& state, const Vector (&vectors)[per_lane]) {
    float values[per_lane][shape.vector];
#pragma unroll
    for (int i = 0; i < per_lane; ++i) vectors[i].unpack(values[i]);
    float highest = Maximum::identity();
    if constexpr (sizeof(Input) == 2) {
      PackedMaximum<Input> packed;
#pragma unroll
      for (int i = 0; i < per_lane; ++i) packed.include(vectors[i]);
      highest = packed.value();
    } else {
#pragma unroll
      for (int i = 0; i < per_lane; ++i) highest = maximum_or_nan(highest, largest_of(values[i]));
    }
    if (ballot(!(highest <= state.largest)) != 0)
      state.raise_to(reduce_lanes<32>(maximum_or_nan(state.largest, highest), Maximum()));
    if (state.largest == Maximum::identity()) return;  // all elements so far are -inf: the sum stays 0
    const typename RunningSoftmax<shape>::Exponential exponential(state.largest, state.scale);
#pragma unroll
    for (int i = 0; i < per_lane; ++i)
      state.sum.include(
          Function::template sum_of_exponentials<shape>(exponential, state.largest, state.max_count, values[i]));
  }
};

/// `Types` has Input and Output. The workspace starts with the two words of Tickets.
template <typename Types, const RowShape& shape, const PipelineConfig& config>
__device__ __forceinline__ void softmax_pipeline(const RowParams& params) {
  using Geometry = Pipeline<typename Types::Input, shape, config>;
  using Control = PipelineControl<Geometry, config, RowInfo, SoftmaxPartial<shape>, SoftmaxPartial<shape>>;
  constexpr int blocks = config.blocks_per_row;
  stream_rows<SoftmaxWorker<Types, shape, config, Control>, config, Control>(
      params, [&](Control& control, int slot, uint32 parity, int rank, int& ticket) {
        RunningSoftmax<shape> state(params);
        state.include(control.parts[slot][lane_index() % config.warps]);
        SoftmaxPartial<shape> part = over_group(LaneGroup<32, config.warps>(nullptr, 0), state);
        if constexpr (blocks > 1) {
          const auto record = exchange_records<blocks>(control, slot, parity, rank, bits_of(part.largest), bits_of(part.sum),
                                                       bits_of(part.max_count), ticket);
          RunningSoftmax<shape> all(params);
          all.include({float_of(record.word[0]), float_of(record.word[1]), float_of(record.word[2])});
          part = over_group(LaneGroup<32, blocks>(nullptr, 0), all);
        }
        return part;
      });
}

}  // namespace tunesmith

#endif
