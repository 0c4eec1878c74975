// Gradient of softmax and log_softmax in two reads and one write of rows that stream through shared memory, on the pipeline
// of row/schedules/pipeline.cuh. Pass 1 reduces one sum; pass 2 computes the gradient from dy and y in shared memory.
#pragma once

#include "row/schedules/streamed_rows.cuh"
#include "softmax/backward.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// A worker warp; all 32 lanes together.
template <typename Types, const RowShape& shape, const PipelineConfig& config, typename Control>
struct SoftmaxBackwardWorker : RowWorker<Types, shape, config, 2, Control> {
  using Worker = RowWorker<Types, shape, config, 2, Control>;
  using typename Worker::Input;
  using typename Worker::ResidentRow;
  using typename Worker::Vector;
  using Worker::per_lane;
  using Worker::Worker;

  __device__ __forceinline__ ResidentRow first_pass(int k) {
    CompensatedSum running_sum;
    return this->read(
        k,
        [&](int bytes_left) {
          Vector dy[per_lane], y[per_lane];
          this->once.load(bytes_left, dy, 0, 0.0f);
          this->once.load(bytes_left, y, 1, absent_y<Input, shape>());
#pragma unroll
          for (int i = 0; i < per_lane; ++i) {
            float dy_values[shape.vector], y_values[shape.vector];
            dy[i].unpack(dy_values);
            y[i].unpack(y_values);
            include_in_sum<Input, shape>(running_sum, dy_values, y_values);
          }
        },
        [&] { return reduce_lanes<32>(running_sum.both(), SumOfTwoFloats()); });
  }
  __device__ __forceinline__ void second_pass(int k, ResidentRow resident) {
    const SoftmaxGradient<shape> gradient(this->params, this->result_of(k), 1.0f);
    this->write(resident, [&](float(&values)[2][shape.vector]) { gradient.compute(values[0], values[1]); });
  }
};

/// `Types` has Input (of dy and y) and Output (of dx). The workspace starts with the two words of Tickets.
template <typename Types, const RowShape& shape, const PipelineConfig& config>
__device__ __forceinline__ void softmax_backward_pipeline(const RowParams& params) {
  static_assert(!shape.safe || !shape.logarithm, "a part is two floats");
  using Geometry = Pipeline<typename Types::Input, shape, config, 2>;
  using Control = PipelineControl<Geometry, config, RowInfo, FloatPair, FloatPair>;
  constexpr int blocks = config.blocks_per_row;
  stream_rows<SoftmaxBackwardWorker<Types, shape, config, Control>, config, Control>(
      params, [&](Control& control, int slot, uint32 parity, int rank, int& ticket) {
        FloatPair sum = reduce_lanes<config.warps>(control.parts[slot][lane_index() % config.warps], SumOfTwoFloats());
        if constexpr (blocks > 1) {
          const auto record =
              exchange_records<blocks>(control, slot, parity, rank, bits_of(sum.first), bits_of(sum.second), 0u, ticket);
          sum = reduce_lanes<blocks>(FloatPair{float_of(record.word[0]), float_of(record.word[1])}, SumOfTwoFloats());
        }
        return sum;
      });
}

}  // namespace tunesmith

#endif
