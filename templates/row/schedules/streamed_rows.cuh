// Rows of x, or of two arrays, that become rows of y on the pipeline of row/schedules/pipeline.cuh. An operation adds the
// computation of its worker in each pass and of partials.
#pragma once

#include "row/schedules/pipeline.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// The producer's information about a row, if it is only the row's number.
struct RowInfo {
  int64 row;  ///< -1: no more rows
};

/// Row data for produce_rows(): this block's piece of each input array.
template <typename Input, typename Geometry, typename Control>
struct RowsOfInputs {
  const RowParams& params;
  Control& control;
  int first_byte;  ///< start of this block's piece

  __device__ __forceinline__ const char* source(int64 row, int input) const {
    const auto* const first = static_cast<const Input*>(params.input[input]) + row * params.input_stride[input];
    return reinterpret_cast<const char*>(first) + first_byte;
  }
  __device__ __forceinline__ void ask(int64) const {}
  __device__ __forceinline__ void about(int place, int64 row) const { control.info[place].row = row; }
  __device__ __forceinline__ void begun(int64) const {}
  __device__ __forceinline__ void ended(int) const {}
};

/// A worker warp of an operation that reads rows of `Input`s and writes rows of `Output`s.
template <typename Types, const RowShape& shape, const PipelineConfig& config, int inputs, typename Control>
struct RowWorker {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Geometry = Pipeline<Input, shape, config, inputs>;
  using Parts = PartsOfChunks<Input, shape, config, inputs>;
  using Vector = typename Parts::Vector;
  static constexpr int per_lane = Geometry::per_lane;

  const RowParams& params;
  Control& control;
  int first_byte, piece, warp;
  Parts once, again;

  __device__ __forceinline__ RowWorker(const RowParams& row_params, Control& all_control, uint32 ring, int rank,
                                       int warp_number)
      : params(row_params),
        control(all_control),
        first_byte(rank * Geometry::piece),
        piece(Geometry::piece_of(rank)),
        warp(warp_number),
        once(ring, warp_number),
        again(ring, warp_number) {}

  /// A row between its two passes.
  struct ResidentRow {
    int64 row;  ///< negative after the last one
  };

  /// Pass 1: calls include(bytes_left) when a chunk of the k-th row is ready for once.load(), then leaves part().
  template <typename Include, typename MakePart>
  __device__ __forceinline__ ResidentRow read(int k, const Include& include, const MakePart& part) {
    const ResultPlace<Geometry::results> place(k);
    int64 row = -1;
#pragma unroll 1
    for (int c = 0; c < Geometry::chunks; ++c) {
      barrier_wait(shared_address(&control.full[once.stage.index]), once.stage.parity);
      if (c == 0) {
        row = control.info[place.index].row;
        if (row < 0) break;  // the finisher waits for partials of this row, too
      }
      include(piece - c * Geometry::chunk);
      once.stage.next();
    }
    const auto all = part();
    if (lane_index() == 0) {
      control.parts[place.index][warp] = all;
      barrier_arrive(shared_address(&control.found[place.index]));
    }
    sync_warp();
    return {row};
  }

  /// Returns the result of the k-th row when it is announced.
  __device__ __forceinline__ auto result_of(int k) const {
    const ResultPlace<Geometry::results> place(k);
    barrier_wait(shared_address(&control.announced[place.index]), place.parity);
    return control.result[place.index];
  }
  /// Pass 2: loads chunk after chunk of all inputs, frees it, and writes the first array as compute(values) leaves it.
  template <typename Compute>
  __device__ __forceinline__ void write(ResidentRow resident, const Compute& compute) {
    Output* const first = static_cast<Output*>(params.output) + resident.row * params.output_stride +
                          first_byte / static_cast<int>(sizeof(Input)) + (again.begin + lane_index()) * shape.vector;
#pragma unroll 1
    for (int c = 0; c < Geometry::chunks; ++c) {
      Vector vectors[inputs][per_lane];
#pragma unroll
      for (int input = 0; input < inputs; ++input) again.load(piece - c * Geometry::chunk, vectors[input], input);
      sync_warp();
      if (lane_index() == 0) barrier_arrive(shared_address(&control.empty[again.stage.index]));
      Output* const to = first + c * (Geometry::chunk / static_cast<int>(sizeof(Input)));
#pragma unroll
      for (int i = 0; i < per_lane; ++i) {
        float values[inputs][shape.vector];
#pragma unroll
        for (int input = 0; input < inputs; ++input) vectors[input][i].unpack(values[input]);
        compute(values);
        if (again.holds(i)) store_whole<Output, shape.vector, config.store>(to, i * 32 * shape.vector, values[0]);
      }
      again.stage.next();
    }
  }
};

/// Runs the finisher in one warp: combine(slot and parity of a row, ticket) returns the row's result and exchanges the
/// ticket; the result is announced.
template <typename Geometry, const PipelineConfig& config, typename Control, typename Combine>
__device__ __forceinline__ void finish_each_row(Control& control, const Tickets& tickets, int rank, const Combine& combine) {
  for (int k = 0;; ++k) {
    const ResultPlace<Geometry::results> place(k);
    // Take the ticket now; it is needed when the partials have arrived. The last ticket is unused.
    int ticket = 0;
    if (rank == 0 && lane_index() == 0) ticket = tickets.take(1);
    barrier_wait(shared_address(&control.found[place.index]), place.parity);
    if (control.info[place.index].row < 0) break;
    const auto result = combine(place.index, place.parity, ticket);
    if (lane_index() == 0) {
      control.result[place.index] = result;
      control.ticket[(k + tickets.ahead) % Geometry::results] = ticket;
      barrier_arrive(shared_address(&control.announced[place.index]));
    }
    sync_warp();
  }
  if (rank == 0 && lane_index() == 0) tickets.done(grid_blocks() / config.blocks_per_row);
}

/// Runs the pipeline of an operation. `Worker`: a RowWorker with first_pass() and second_pass(), see work_on_rows().
/// `combine`: as in finish_each_row(), with the control block before, and the rank before the ticket. The workspace starts
/// with the two words of Tickets.
template <typename Worker, const PipelineConfig& config, typename Control, typename Combine>
__device__ __forceinline__ void stream_rows(const RowParams& params, const Combine& combine) {
  using Geometry = typename Worker::Geometry;
  run_pipeline<Geometry, config, Control>(
      params,
      [&](Control& control, uint32 ring, const Tickets& tickets, int rank) {
        RowsOfInputs<typename Worker::Input, Geometry, Control> rows{params, control, rank * Geometry::piece};
        produce_rows<Geometry, config>(control, ring, tickets, rank, rows);
      },
      [&](Control& control, const Tickets& tickets, int rank) {
        finish_each_row<Geometry, config>(control, tickets, rank, [&](int slot, uint32 parity, int& ticket) {
          return combine(control, slot, parity, rank, ticket);
        });
      },
      [&](Control& control, uint32 ring, int rank, int warp) {
        Worker worker(params, control, ring, rank, warp);
        work_on_rows<config.ahead>(worker);
      });
}

}  // namespace tunesmith

#endif
