// Messages between the blocks of a cluster (sm_90 and later). Each block receives a known number of bytes and waits for them
// once.
//
// On sm_90a an mbarrier in the receiver's shared memory counts the bytes: a block waits only for its own messages and needs
// no fence, unlike with plain stores and a cluster barrier, which other architectures use.
#pragma once

#include "device/bulk.cuh"

#if TUNESMITH_SM >= 900

namespace tunesmith {

class ClusterMessages {
 public:
  static constexpr int bytes = 16;  ///< shared memory needed, 8-byte aligned

  /// Called by all threads of a block at its start. `expected`: number of bytes it will receive, its own included.
  __device__ __forceinline__ ClusterMessages(unsigned char* memory, int expected) : memory_(memory) {
#if TUNESMITH_HAS_SM90A
    if (thread_index() == 0) {
      barrier_init(shared_address(memory), 1);
      barriers_ready();
      barrier_arrive_expecting(shared_address(memory), expected);
    }
    // Relaxed arrival: the fence above has already published the barrier.
    sync_warp();
    cluster_arrive_relaxed();
#else
    cluster_arrive();
#endif
  }
  /// Called by all threads before the first message: waits until all blocks of the cluster have started.
  __device__ __forceinline__ void open() const { cluster_wait(); }
  /// Stores `message` at `object` in block `rank`. Nothing else may access that memory until await().
  __device__ __forceinline__ void send(Bits<16>* object, int rank, const Bits<16>& message) const {
#if TUNESMITH_HAS_SM90A
    send_async(address_of_rank(shared_address(object), rank), message.word[0], message.word[1], message.word[2],
               message.word[3], address_of_rank(shared_address(memory_), rank));
#else
    *shared_of_rank(object, rank) = message;
#endif
  }
  /// Waits until all messages have arrived; called by all threads. The block may exit after it.
  __device__ __forceinline__ void await() const {
#if TUNESMITH_HAS_SM90A
    barrier_wait_cluster(shared_address(memory_), 0);
#else
    sync_cluster();
#endif
  }

 private:
  unsigned char* const memory_;
};

}  // namespace tunesmith

#endif
