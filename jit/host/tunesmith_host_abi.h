// The interface between a kernel library and the host executor. Plain C++17 without includes, because it is compiled into
// every kernel library. A library resolves no symbol of the program; it gets a table of functions when it is loaded.
// Increase `version` with any change of layout or meaning.
#pragma once

namespace tunesmith_host_abi {

constexpr unsigned version = 6;

/// Collective operations of a warp; all lanes must call the same one.
enum class Collective : unsigned {
  sync_warp,
  shuffle_xor,
  shuffle,
  ballot,
  any_in_warp,
  all_in_warp,
  load_matrix_x4,  // from here on: only for full warps
  load_matrix_x4_transposed,
  store_matrix_x4,
  multiply_accumulate,
  elect_one,
  store_matrix_x4_transposed,
  warpgroup_product,
};

/// Values that lanes exchange. Two sets alternate, because a lane can be at most one collective ahead of lanes that still
/// read.
struct Warp {
  unsigned generation;  ///< completed collectives; the lowest bit selects the current set
  unsigned present;     ///< bit i: lane i exists
  unsigned votes[2];
  unsigned long long values[2][32];  ///< lanes that do not exist hold 0xFF bytes
};

/// A CUDA thread. It is stored at the end of its stack, where current_thread() finds it.
struct Thread {
  Warp* warp;
  unsigned char* dynamic_shared;
  long long block_index;
  int thread_x;
  int lane;
  int cluster_rank;
  int cluster_size;
  long long grid_blocks;
  unsigned long long shared_begin, shared_bytes;  ///< contain the shared memory of all blocks that are resident together
};

/// One thread's part of a warpgroup's product (wgmma): two rows of d (64 x n) = A (64 x 16) B (16 x n) [+ d].
struct MatrixProduct {
  float* d;  ///< n / 2 accumulators
  int n;
  bool is_bf16;  ///< else f16
  bool accumulates;
  bool n_innermost;            ///< layout of B: k rows with n innermost, else n rows with k innermost
  bool m_innermost;            ///< layout of A in shared memory: k rows with m innermost, else m rows with k innermost
  bool a_in_registers;         ///< else `a` is the descriptor of A
  unsigned long long a, b;     ///< descriptors, as for PTX
  unsigned short rows[2][16];  ///< of A in registers
};

/// Functions that the executor provides. They do not throw; on an error they do not return.
struct Services {
  unsigned version;
  void (*sync_block)(Thread&);
  void (*sync_cluster)(Thread&);
  void (*cluster_arrive)(Thread&);
  void (*cluster_wait)(Thread&);
  void (*await)(Thread&, const unsigned long long* word, unsigned tag);  ///< returns once the upper half was `tag`
  void (*join_warp)(Thread&, Collective);                                ///< returns when every lane has joined
  void* (*static_shared)(Thread&, const void* key, unsigned long long bytes, unsigned long long alignment);
  void* (*shared_of_rank)(Thread&, void* object, int rank);
  void (*misaligned)(Thread&, const char* access, const void* address, int bytes);
  /// The same for an access of the source's own; `type`: quoted.
  void (*misaligned_object)(Thread&, const char* type, const char* file, unsigned line, const void* address, int bytes);
  /// Access to global memory of an address in shared memory or on the thread's stack, or the reverse.
  void (*in_other_memory)(Thread&, const char* access, const void* address);
  /// Copies `bytes` (at most 16) from `data` to shared memory. Reads `data` at once and fills the destination with 0xFF
  /// until this thread waits for the copy's group. A thread must not return before it has waited.
  void (*async_copy)(Thread&, void* shared, const void* data, unsigned bytes);
  void (*async_copy_commit)(Thread&);
  void (*async_copy_wait)(Thread&, unsigned pending);  ///< completes all committed groups but the last `pending`

  // Hopper. Addresses in shared memory are 32-bit: see SharedMemory::window.
  unsigned (*shared_address)(Thread&, const void* object);
  void* (*shared_pointer)(Thread&, unsigned address, unsigned bytes);
  void (*barrier_init)(Thread&, unsigned barrier, int arrivals);
  void (*barrier_arrive)(Thread&, unsigned barrier, int announced_bytes);
  void (*barrier_wait)(Thread&, unsigned barrier, unsigned parity);
  /// Copies to shared memory that `barrier` counts. They read their source at once, fill the destination with 0xFF, and land
  /// when a thread waits at the barrier.
  void (*bulk_copy)(Thread&, unsigned to, const void* from, unsigned bytes, unsigned barrier);
  void (*load_tile)(Thread&, unsigned to, const void* map, unsigned barrier, const int* at, int rank);
  /// Stores and additions from shared to global memory. They read shared memory when the thread waits for their group.
  void (*store_tile)(Thread&, const void* map, unsigned from, const int* at, int rank, bool adds);
  void (*bulk_store)(Thread&, float* to, unsigned from, unsigned bytes, bool adds);
  void (*add_floats)(float* to, const float* values, unsigned count);  ///< atomically, each as if alone
  void (*store_commit)(Thread&);
  void (*store_wait)(Thread&, unsigned pending);
  /// Arrives at named barrier `id` of the block, and waits for `threads` threads if `waits`.
  void (*meet_threads)(Thread&, int id, int threads, bool waits);
  void (*wait_for_count)(Thread&, const unsigned* word, unsigned count);
  /// Products fill their accumulators with NaN and are computed when the thread waits for their group.
  void (*product)(Thread&, const MatrixProduct&);
  void (*product_commit)(Thread&);
  void (*product_wait)(Thread&, unsigned pending);
};

// Stacks are aligned to their size, so any address within a stack leads to its thread, without thread-local storage.
// Adjacent stacks use different offsets; otherwise all threads of a block would share the same cache sets.
constexpr unsigned long long thread_area_bytes = 512;
constexpr unsigned long long stack_colours = 16;
constexpr unsigned long long stack_colour_bytes = 256;

inline Thread* thread_at(unsigned long long address, unsigned stack_shift) {
  const unsigned long long number = address >> stack_shift;
  const unsigned long long end = (number + 1) << stack_shift;
  return reinterpret_cast<Thread*>(end - number % stack_colours * stack_colour_bytes - thread_area_bytes);
}

/// One entry point of a kernel library.
struct Entry {
  const char* name;
  void (*invoke)(const void* params);  ///< runs the kernel for the calling thread
  unsigned long long params_bytes, params_alignment;
};
/// The entry points of one source.
struct Source {
  const Entry* entries;
  unsigned long long count;
};
struct Library {
  unsigned version;
  const Source* sources;
  unsigned long long count;
};
/// Signature of the only symbol that a kernel library exports. `services` must outlive the library.
using Open = const Library*(const Services* services, unsigned stack_shift);
constexpr const char* open_symbol = "tunesmith_host_library";

}  // namespace tunesmith_host_abi
