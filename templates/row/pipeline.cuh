// Rows that stream through shared memory (sm_90a, CUDA only). Clusters take row after row; each block has a piece of every
// row. A block's shared memory is a ring of chunks that one thread, the producer, fills with bulk copies: row after row, as
// chunks are given back, and never waiting for what becomes of a row. Working warps go by themselves, without a barrier of
// the block: each has its part of every chunk. A first pass over a row leaves what a warp found; one more warp, the
// finisher, puts that together, meets the other blocks of the cluster and announces the result; a second pass goes over the
// same chunks, which are still there, and gives them back. With config.ahead the working warps do the first pass of the next
// row before they ask for a row's result.
//
// Rows are numbered by tickets from a counter in global memory, so that clusters that are faster, or start later, take more
// or fewer of them; a row's arithmetic does not depend on who takes it. The ticket of a row some rows ahead comes along with
// what rank 0 sends for a row.
//
// Why nothing hangs: a row's first pass needs only that its chunks have room (the ring holds the rows that wait and a chunk
// more) and the results of rows before it; a result needs only first passes. Every ring of results has `results` places and
// the producer stays less than that ahead of the finisher, so no barrier gets two phases ahead of who waits for it.
#pragma once

#include "device/bulk.cuh"
#include "row/row.cuh"

#if !defined(TUNESMITH_HOST_EXECUTOR) && (!defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL))

namespace tunesmith {

struct PipelineConfig {
  int warps;           ///< that work; the producer's and the finisher's come on top
  int blocks_per_row;  ///< of the cluster
  int stages;          ///< chunks in the ring
  int chunk_bytes;     ///< at most
  int ahead;           ///< rows whose first pass is done before a row's second: 0 or 1
  int control_bytes;   ///< behind the ring
  L2Hint load;
  StoreHint store;
};

/// The least multiple of `unit` that is not less.
template <int64 value, int64 unit>
constexpr int rounded_up = static_cast<int>((value + unit - 1) / unit * unit);

/// How a row of `Element`s lies in the ring.
template <typename Element, const RowShape& shape, const PipelineConfig& config>
struct Pipeline {
  static constexpr int row_bytes = static_cast<int>(shape.cols * static_cast<int64>(sizeof(Element)));
  static constexpr int vector_bytes = shape.vector * static_cast<int>(sizeof(Element));
  static constexpr int piece = rounded_up<rounded_up<row_bytes, config.blocks_per_row> / config.blocks_per_row, 128>;
  static constexpr int chunks = (piece + config.chunk_bytes - 1) / config.chunk_bytes;  // of a piece
  static constexpr int chunk = rounded_up<rounded_up<piece, chunks> / chunks, 128>;
  /// Vectors of a chunk that a warp has: the last warps' parts may end before, or lie beyond the chunk.
  static constexpr int part = rounded_up<rounded_up<chunk / vector_bytes, config.warps> / config.warps, 8>;
  static constexpr int per_lane = (part + 31) / 32;
  static constexpr int results = 8;
  static constexpr int most_tickets = config.stages / chunks + 2 < 6 ? config.stages / chunks + 2 : 6;
  static constexpr int ring_bytes = config.stages * chunk;

  static_assert(row_bytes % 16 == 0 && (config.blocks_per_row - 1) * piece < row_bytes, "every block has whole copies");
  static_assert(config.stages > chunks * (1 + config.ahead), "the ring holds the rows that wait and a chunk more");
  static_assert(config.stages < chunks * (results - 2), "results are kept longer than rows");
  static_assert(chunk <= config.chunk_bytes && chunk % vector_bytes == 0, "a chunk has whole vectors");

  /// Bytes of a rank's piece.
  static __device__ __forceinline__ int piece_of(int rank) {
    const int left = row_bytes - rank * piece;
    return left < piece ? left : piece;
  }
};

/// Places of the rings of results: row number `k` of this cluster, counted from 0.
template <int results>
struct ResultPlace {
  int index;
  uint32 parity;
  __device__ __forceinline__ explicit ResultPlace(int k)
      : index(k % results), parity(static_cast<uint32>(k / results) & 1u) {}
};

/// What lies behind the ring. `Info`: of a row, from the producer. `Part`: what a warp found. `Result`: for the second pass.
template <typename Geometry, const PipelineConfig& config, typename Info, typename Part, typename Result>
struct PipelineControl {
  struct alignas(16) Record {
    uint32 word[4];
  };
  static constexpr int results = Geometry::results;

  uint64 full[config.stages];   ///< the chunk has come
  uint64 empty[config.stages];  ///< every working warp has given it back
  uint64 found[results];        ///< every working warp has left its part, and the producer what it knows of the row
  uint64 met[results];          ///< every block's record has come
  uint64 announced[results];    ///< the result is there, and the ticket
  Record records[results][config.blocks_per_row];
  Result result[results];
  Info info[results];
  Part parts[results][config.warps];
  int ticket[results];

  __device__ __forceinline__ static PipelineControl& behind(unsigned char* ring) {
    static_assert(sizeof(PipelineControl) <= config.control_bytes, "the host leaves room for this");
    return *reinterpret_cast<PipelineControl*>(ring + Geometry::ring_bytes);
  }

  /// One thread.
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

/// The counter that rows are taken from: two words of the workspace, zeros between launches.
struct Tickets {
  uint32* words;
  int64 rows;
  int ahead;  ///< rows between a row and the earlier row whose result carries its number, in a cluster

  /// Few rows are not all taken by the clusters that start first.
  __device__ __forceinline__ Tickets(void* workspace, int64 all_rows, int64 clusters, int most)
      : words(static_cast<uint32*>(workspace)), rows(all_rows) {
    const int64 share = all_rows / clusters;
    ahead = share < 2 ? 2 : (share < most ? static_cast<int>(share) : most);
  }
  /// One thread of a cluster.
  __device__ __forceinline__ int take(int count) const {
    return static_cast<int>(atomic_add(words, static_cast<uint32>(count)));
  }
  /// The same thread, once it has all that it asked for: the last cluster leaves the counter as it found it.
  __device__ __forceinline__ void done(int64 clusters) const {
    if (atomic_add_in_order(words + 1, 1u) != static_cast<uint32>(clusters - 1)) return;
    words[0] = 0;
    words[1] = 0;
  }
};

/// The producer: fills the ring. One thread. What `rows` knows of a row comes with it:
///   source(row)      the address of this block's piece;
///   ask(row)         called while the row before is copied: brings near what about() looks at;
///   about(place, row) before a row's first chunk: writes the row's info, as far as it is known; row -1: the end;
///   begun(row)       its first chunk is on its way: asks for more;
///   ended(place)     all of it is: writes what begun() asked for.
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
    const char* const from = rows.source(ticket);
    int next = 0;
#pragma unroll 1
    for (int c = 0; c < Geometry::chunks; ++c) {
      if (c > 0) barrier_wait(empty + 8 * stage.index, stage.parity ^ 1);
      const int left = piece - c * Geometry::chunk;
      const int bytes = left < Geometry::chunk ? (left > 0 ? left : 0) : Geometry::chunk;
      barrier_arrive_expecting(full + 8 * stage.index, bytes);
      if (bytes > 0)
        copy_bulk(ring + stage.index * Geometry::chunk, from + c * Geometry::chunk, bytes, full + 8 * stage.index,
                  config.load);
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

/// A working warp's part of the chunks, in their order. All 32 lanes together.
template <typename Element, const RowShape& shape, const PipelineConfig& config>
struct PartsOfChunks {
  using Geometry = Pipeline<Element, shape, config>;
  using Vector = Packed<Element, shape.vector>;

  uint32 ring;  ///< the address of this lane's first vector of the first chunk
  int begin;    ///< vectors of a chunk before those of this warp
  Stage<config.stages> stage;
  int count = 0;  ///< vectors of the warp in the chunk that was loaded last

  __device__ __forceinline__ PartsOfChunks(uint32 ring_address, int warp)
      : ring(ring_address + (warp * Geometry::part + lane_index()) * Geometry::vector_bytes), begin(warp * Geometry::part) {}

  /// Whether vector i of this lane exists.
  __device__ __forceinline__ bool holds(int i) const { return i * 32 + lane_index() < count; }

  /// Loads the current chunk. `bytes_left`: bytes of its piece that remain; elements beyond them are -inf.
  __device__ __forceinline__ void load(int bytes_left, Vector (&vectors)[Geometry::per_lane]) {
    const int bytes = bytes_left < Geometry::chunk ? bytes_left : Geometry::chunk;
    const int rest = bytes / Geometry::vector_bytes - begin;
    count = rest < Geometry::part ? rest : Geometry::part;
    const uint32 from = ring + stage.index * Geometry::chunk;
    if (Geometry::part % 32 == 0 && count == Geometry::part) {
#pragma unroll
      for (int i = 0; i < Geometry::per_lane; ++i)
        vectors[i].access[0] = load_shared<Geometry::vector_bytes>(from + i * 32 * Geometry::vector_bytes);
    } else {
      float outside[shape.vector];
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) outside[j] = float_of(0xff800000u);
#pragma unroll
      for (int i = 0; i < Geometry::per_lane; ++i) {
        vectors[i].pack_from(outside);
        if (holds(i)) vectors[i].access[0] = load_shared<Geometry::vector_bytes>(from + i * 32 * Geometry::vector_bytes);
      }
    }
  }
};

}  // namespace tunesmith

#endif
