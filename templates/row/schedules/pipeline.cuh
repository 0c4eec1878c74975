// A persistent, warp-specialized pipeline over rows (sm_90a). A cluster processes one row after another; each of
// its blocks owns a fixed piece of every row and keeps a ring of chunks in shared memory.
//
//   producer   one thread fills the ring with bulk copies, as long as there are free chunks and a next ticket.
//   workers    each warp owns a slice of every chunk and needs no block barrier. Pass 1 leaves one partial per warp and row;
//              pass 2 reads the same chunks from shared memory, writes the output and frees them.
//   finisher   one warp combines the partials of a row, exchanges them within the cluster and publishes the result.
//
// With config.ahead = 1, workers run pass 1 of the next row before they wait for the result of the current one.
//
// Rows are assigned by tickets from a counter in global memory, so faster clusters take more rows; the arithmetic of a row
// does not depend on its cluster. Rank 0 sends the ticket of a later row along with the result of each row.
//
// Deadlock freedom: pass 1 needs free chunks (the ring holds all resident rows and one more chunk) and results of earlier
// rows; a result needs only pass 1. The result rings have `results` slots and the producer runs fewer rows than that ahead
// of the finisher, so no barrier gets two phases ahead of a thread that waits for it.
#pragma once

#include "device/bulk.cuh"
#include "row/row.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

struct PipelineConfig {
  int warps;           ///< worker warps; the producer and the finisher need one more each
  int blocks_per_row;  ///< blocks of a cluster
  int stages;          ///< chunks in the ring
  int chunk_bytes;     ///< upper bound
  int ahead;           ///< rows whose pass 1 runs before pass 2 of the current row: 0 or 1
  int control_bytes;   ///< after the ring
  L2Hint load;
  StoreHint store;
};

/// Rounds `value` up to a multiple of `unit`.
template <int64 value, int64 unit>
constexpr int rounded_up = static_cast<int>((value + unit - 1) / unit * unit);

/// Layout of a row of `Element`s in the ring. Of `inputs` arrays, a chunk holds the same columns one after another.
template <typename Element, const RowShape& shape, const PipelineConfig& config, int input_count = 1>
struct Pipeline {
  static constexpr int inputs = input_count;
  static constexpr int row_bytes = static_cast<int>(shape.cols * static_cast<int64>(sizeof(Element)));
  static constexpr int vector_bytes = shape.vector * static_cast<int>(sizeof(Element));
  static constexpr int piece = rounded_up<rounded_up<row_bytes, config.blocks_per_row> / config.blocks_per_row, 128>;
  static constexpr int chunks = (piece + config.chunk_bytes - 1) / config.chunk_bytes;  // per piece
  static constexpr int chunk = rounded_up<rounded_up<piece, chunks> / chunks, 128>;
  /// Vectors of a chunk that one warp owns. The slices of the last warps may be shorter, or empty.
  static constexpr int part = rounded_up<rounded_up<chunk / vector_bytes, config.warps> / config.warps, 8>;
  static constexpr int per_lane = (part + 31) / 32;
  static constexpr int results = 8;
  static constexpr int max_tickets = config.stages / chunks + 2 < 6 ? config.stages / chunks + 2 : 6;
  static constexpr int stage_bytes = inputs * chunk;
  static constexpr int ring_bytes = config.stages * stage_bytes;

  static_assert(row_bytes % 16 == 0 && (config.blocks_per_row - 1) * piece < row_bytes, "every block has whole copies");
  static_assert(config.stages > chunks * (1 + config.ahead), "the ring holds the rows that wait and a chunk more");
  static_assert(config.stages < chunks * (results - 2), "results are kept longer than rows");
  static_assert(chunk <= config.chunk_bytes && chunk % vector_bytes == 0, "a chunk has whole vectors");

  /// Returns the bytes of the piece of block `rank`.
  static __device__ __forceinline__ int piece_of(int rank) {
    const int left = row_bytes - rank * piece;
    return left < piece ? left : piece;
  }
};

/// Slot and parity in the result rings for the k-th row of this cluster, from 0.
template <int results>
struct ResultPlace {
  int index;
  uint32 parity;
  __device__ __forceinline__ explicit ResultPlace(int k)
      : index(k % results), parity(static_cast<uint32>(k / results) & 1u) {}
};

/// Control block after the ring. `Info`: the producer's information about a row; `Part`: partial of a warp; `Result`: for
/// pass 2.
template <typename Geometry, const PipelineConfig& config, typename Info, typename Part, typename Result>
struct PipelineControl {
  struct alignas(16) Record {
    uint32 word[4];
  };
  static constexpr int results = Geometry::results;

  uint64 full[config.stages];   ///< the chunk has arrived
  uint64 empty[config.stages];  ///< all workers have released the chunk
  uint64 found[results];        ///< all workers have stored their partials, and the producer the row's info
  uint64 met[results];          ///< the records of all blocks have arrived
  uint64 announced[results];    ///< the result and the ticket are valid
  Record records[results][config.blocks_per_row];
  Result result[results];
  Info info[results];
  Part parts[results][config.warps];
  int ticket[results];

  __device__ __forceinline__ static PipelineControl& behind(unsigned char* ring) {
    static_assert(sizeof(PipelineControl) <= config.control_bytes, "the host leaves room for this");
    return *reinterpret_cast<PipelineControl*>(ring + Geometry::ring_bytes);
  }

  /// Initializes the barriers. Called by one thread.
  __device__ __forceinline__ void init() {
    for (int i = 0; i < config.stages; ++i) {
      barrier_init(shared_address(&full[i]), 1);
      barrier_init(shared_address(&empty[i]), config.warps);
    }
    for (int i = 0; i < results; ++i) {
      barrier_init(shared_address(&found[i]), config.warps + 1);
      barrier_init(shared_address(&met[i]), 1);
      barrier_init(shared_address(&announced[i]), 1);
    }
    barriers_ready();
  }
};

/// The row counter: two words of the workspace, zero between launches.
struct Tickets {
  uint32* words;
  int64 rows;
  int ahead;  ///< a ticket is sent with the result of the cluster's row that many rows earlier

  /// Limits `ahead`, so that the clusters that start first do not take all of a few rows.
  __device__ __forceinline__ Tickets(void* workspace, int64 all_rows, int64 clusters, int most)
      : words(static_cast<uint32*>(workspace)), rows(all_rows) {
    const int64 share = all_rows / clusters;
    ahead = share < 2 ? 2 : (share < most ? static_cast<int>(share) : most);
  }
  /// Takes `count` tickets. Called by one thread of a cluster.
  __device__ __forceinline__ int take(int count) const {
    return static_cast<int>(atomic_add(words, static_cast<uint32>(count)));
  }
  /// Called by the same thread after its last take(). The last cluster resets the counter.
  __device__ __forceinline__ void done(int64 clusters) const {
    if (atomic_add_in_order(words + 1, 1u) != static_cast<uint32>(clusters - 1)) return;
    words[0] = 0;
    words[1] = 0;
  }
};

/// Runs the producer in one thread: fills the ring. `rows` supplies the data of each row:
///   source(row, i)     returns the address of this block's piece of input i;
///   ask(row)           prefetches what about() reads, while the row before it is copied;
///   about(place, row)  writes the info that is known before the row's first chunk; row -1 ends the pipeline;
///   begun(row)         issues further loads after the first chunk's copy;
///   ended(place)       writes the results of those loads after the last chunk's copy.
template <typename Geometry, const PipelineConfig& config, typename Control, typename Rows>
__device__ __forceinline__ void produce_rows(Control& control, uint32 ring, const Tickets& tickets, int rank, Rows& rows) {
  const int piece = Geometry::piece_of(rank);
  const uint32 full = shared_address(control.full), empty = shared_address(control.empty);
  Stage<config.stages> stage;
  int ticket = control.ticket[0];
  if (ticket < tickets.rows) rows.ask(ticket);
  for (int k = 0;; ++k) {
    const ResultPlace<Geometry::results> place(k);
    const uint32 found = shared_address(&control.found[place.index]);
    barrier_wait(empty + 8 * stage.index, stage.parity ^ 1);
    if (ticket >= tickets.rows) {
      rows.about(place.index, -1);
      barrier_arrive(full + 8 * stage.index);
      barrier_arrive(found);
      return;
    }
    rows.about(place.index, ticket);
    const char* from[Geometry::inputs];
#pragma unroll
    for (int i = 0; i < Geometry::inputs; ++i) from[i] = rows.source(ticket, i);
    int next = 0;
#pragma unroll 1
    for (int c = 0; c < Geometry::chunks; ++c) {
      if (c > 0) barrier_wait(empty + 8 * stage.index, stage.parity ^ 1);
      const int left = piece - c * Geometry::chunk;
      const int bytes = left < Geometry::chunk ? (left > 0 ? left : 0) : Geometry::chunk;
      barrier_arrive_expecting(full + 8 * stage.index, Geometry::inputs * bytes);
      if (bytes > 0) {
#pragma unroll
        for (int i = 0; i < Geometry::inputs; ++i)
          copy_bulk(ring + stage.index * Geometry::stage_bytes + i * Geometry::chunk, from[i] + c * Geometry::chunk, bytes,
                    full + 8 * stage.index, config.load);
      }
      stage.next();
      if (c > 0) continue;
      rows.begun(ticket);
      if (k + 1 >= tickets.ahead) {
        const ResultPlace<Geometry::results> before(k + 1 - tickets.ahead);
        barrier_wait(shared_address(&control.announced[before.index]), before.parity);
      }
      next = control.ticket[(k + 1) % Geometry::results];
      if (next < tickets.rows) rows.ask(next);
    }
    rows.ended(place.index);
    barrier_arrive(found);
    ticket = next;
  }
}

/// A worker warp's slices of successive chunks. All 32 lanes together.
template <typename Element, const RowShape& shape, const PipelineConfig& config, int inputs = 1>
struct PartsOfChunks {
  using Geometry = Pipeline<Element, shape, config, inputs>;
  using Vector = Packed<Element, shape.vector>;

  uint32 ring;  ///< address of this lane's first vector in the first chunk
  int begin;    ///< first vector of this warp in a chunk
  Stage<config.stages> stage;
  int count = 0;  ///< vectors of this warp in the chunk that was loaded last

  __device__ __forceinline__ PartsOfChunks(uint32 ring_address, int warp)
      : ring(ring_address + (warp * Geometry::part + lane_index()) * Geometry::vector_bytes), begin(warp * Geometry::part) {}

  /// Returns whether vector i of this lane exists.
  __device__ __forceinline__ bool holds(int i) const { return i * 32 + lane_index() < count; }

  /// Loads the current chunk of an input. `bytes_left`: bytes of the piece from this chunk on; elements after them read as
  /// `absent`.
  __device__ __forceinline__ void load(int bytes_left, Vector (&vectors)[Geometry::per_lane], int input = 0,
                                       float absent = Maximum::identity()) {
    const int bytes = bytes_left < Geometry::chunk ? bytes_left : Geometry::chunk;
    const int rest = bytes / Geometry::vector_bytes - begin;
    count = rest < Geometry::part ? rest : Geometry::part;
    const uint32 from = ring + stage.index * Geometry::stage_bytes + input * Geometry::chunk;
    if (Geometry::part % 32 == 0 && count == Geometry::part) {
#pragma unroll
      for (int i = 0; i < Geometry::per_lane; ++i)
        vectors[i].access[0] = load_shared<Geometry::vector_bytes>(from + i * 32 * Geometry::vector_bytes);
    } else {
      float outside[shape.vector];
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) outside[j] = absent;
#pragma unroll
      for (int i = 0; i < Geometry::per_lane; ++i) {
        vectors[i].pack_from(outside);
        if (holds(i)) vectors[i].access[0] = load_shared<Geometry::vector_bytes>(from + i * 32 * Geometry::vector_bytes);
      }
    }
  }
};

/// Runs a worker warp: first_pass(k) of the k-th row of this cluster returns the argument `row` of second_pass(k, row); a
/// negative row in it ends the pipeline.
template <int ahead, typename Worker>
__device__ __forceinline__ void work_on_rows(Worker& worker) {
  if constexpr (ahead == 0) {
    for (int k = 0;; ++k) {
      const auto resident = worker.first_pass(k);
      if (resident.row < 0) break;
      worker.second_pass(k, resident);
    }
  } else {
    auto resident = worker.first_pass(0);
    for (int k = 0; resident.row >= 0; ++k) {
      const auto next = worker.first_pass(k + 1);
      worker.second_pass(k, resident);
      resident = next;
    }
  }
}

/// Sends three words of this block, and block 0's ticket, to all blocks of the cluster. Returns the record of block lane %
/// blocks, and sets `ticket` to block 0's. All lanes of the finisher.
template <int blocks, typename Control>
__device__ __forceinline__ typename Control::Record exchange_records(Control& control, int slot, uint32 parity, int rank,
                                                                     uint32 a, uint32 b, uint32 c, int& ticket) {
  const int lane = lane_index();
  const uint32 met = shared_address(&control.met[slot]);
  if (lane == 0) barrier_arrive_expecting(met, blocks * 16);
  sync_warp();
  ticket = shuffle(ticket, 0);
  if (lane < blocks)
    send_async(address_of_rank(shared_address(&control.records[slot][rank]), lane), a, b, c, static_cast<uint32>(ticket),
               address_of_rank(met, lane));
  barrier_wait_cluster(met, parity);
  const typename Control::Record record = control.records[slot][lane % blocks];
  ticket = static_cast<int>(control.records[slot][0].word[3]);
  return record;
}

/// Runs the pipeline: `produce`, `finish` and `work` are the three roles, each called by its warps with the block's rank in
/// its cluster; `work` gets the number of its warp, too. The workspace starts with the two words of Tickets.
template <typename Geometry, const PipelineConfig& config, typename Control, typename Produce, typename Finish,
          typename Work>
__device__ __forceinline__ void run_pipeline(const RowParams& params, const Produce& produce, const Finish& finish,
                                             const Work& work) {
  constexpr int blocks = config.blocks_per_row;
  unsigned char* const memory = dynamic_shared();
  Control& control = Control::behind(memory);
  const uint32 ring = shared_address(memory);
  const int warp = warp_index();
  const int rank = blocks > 1 ? cluster_rank() : 0;
  const Tickets tickets(params.workspace, params.rows, grid_blocks() / blocks, Geometry::max_tickets);

  // The thread that takes the cluster's tickets takes the first ones.
  const bool takes = warp == config.warps + 1 && rank == 0;
  int first = 0;
  if (takes && lane_index() == 0) first = tickets.take(tickets.ahead);
  if (thread_index() == 0) control.init();
  sync_block();
  if constexpr (blocks > 1) sync_cluster();
  if (takes) {
    first = shuffle(first, 0);
    if (lane_index() < tickets.ahead) {
#pragma unroll 1
      for (int other = 0; other < blocks; ++other) {
        int* const ticket = &control.ticket[lane_index()];
        *(blocks > 1 ? shared_of_rank(ticket, other) : ticket) = first + lane_index();
      }
    }
  }
  sync_block();
  if constexpr (blocks > 1) sync_cluster();

  if (warp == config.warps) {
    if (lane_index() == 0) produce(control, ring, tickets, rank);
    sync_warp();
  } else if (warp == config.warps + 1) {
    finish(control, tickets, rank);
  } else {
    work(control, ring, rank, warp);
  }
  // Keep this block's shared memory alive while other blocks may still write to it.
  if constexpr (blocks > 1) {
    sync_warp();
    sync_cluster();
  }
}

}  // namespace tunesmith

#endif
