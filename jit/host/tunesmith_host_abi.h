// What a kernel library and the host executor know of each other. Plain C++17 without includes: it is compiled into every
// kernel library, which resolves no symbol of the program but gets a table of functions when it is loaded. Any change of
// layout or meaning is a new `version`.
#pragma once

namespace tunesmith_host_abi {

constexpr unsigned version = 3;

/// What the lanes of a warp do together; all of them must do the same.
enum class Collective : unsigned {
  sync_warp,
  shuffle_xor,
  shuffle,
  ballot,
  any_in_warp,
  all_in_warp,
  load_matrix_x4,  // this and what follows: for warps of all 32 lanes only
  load_matrix_x4_transposed,
  store_matrix_x4,
  multiply_accumulate,
};

/// Values under exchange. Two sets take turns: a lane can be one collective ahead of lanes that have yet to read, not two.
struct Warp {
  unsigned generation;  ///< collectives completed; its lowest bit selects the set in use
  unsigned present;     ///< bit i: lane i exists
  unsigned votes[2];
  unsigned long long values[2][32];  ///< lanes that do not exist hold 0xFF bytes
};

/// A CUDA thread; lies at the end of its stack, where current_thread() finds it.
struct Thread {
  Warp* warp;
  unsigned char* dynamic_shared;
  long long block_index;
  int thread_x;
  int lane;
  int cluster_rank;
  int cluster_size;
};

/// The executor's side. None of these throws; those that find an error do not return.
struct Services {
  unsigned version;
  void (*sync_block)(Thread&);
  void (*sync_cluster)(Thread&);
  void (*cluster_arrive)(Thread&);
  void (*cluster_wait)(Thread&);
  void (*await)(Thread&, const unsigned long long* word, unsigned tag);  ///< returns when the upper half has been `tag`
  void (*join_warp)(Thread&, Collective);                                ///< returns when every lane has joined
  void* (*static_shared)(Thread&, const void* key, unsigned long long bytes, unsigned long long alignment);
  void* (*shared_of_rank)(Thread&, void* object, int rank);
  void (*misaligned)(Thread&, const char* access, const void* address, int bytes);
  /// Shared memory holds 0xFF from now on, and the `bytes` (at most 16) at `data`, read at once, when this thread's wait
  /// covers the group of the copy. A thread that returns before is an error.
  void (*async_copy)(Thread&, void* shared, const void* data, unsigned bytes);
  void (*async_copy_commit)(Thread&);
  void (*async_copy_wait)(Thread&, unsigned pending);  ///< of the groups committed, all but the last `pending` land
};

// Stacks are aligned to their size, so a thread is found from any address within its stack, without thread-local storage.
// Stacks that are neighbours put it at different offsets, or all threads of a block would meet in the same cache sets.
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
  void (*invoke)(const void* params);  ///< runs the calling thread's share
  unsigned long long params_bytes, params_alignment;
};
/// What came from one source.
struct Source {
  const Entry* entries;
  unsigned long long count;
};
struct Library {
  unsigned version;
  const Source* sources;
  unsigned long long count;
};
/// The one symbol that a kernel library exports. `services` must outlive it.
using Open = const Library*(const Services* services, unsigned stack_shift);
constexpr const char* open_symbol = "tunesmith_host_library";

}  // namespace tunesmith_host_abi
