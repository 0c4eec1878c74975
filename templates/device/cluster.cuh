// Messages between the blocks of a cluster (sm_90 and later): each block receives a known number of bytes and waits for them
// once.
//
// On sm_90a a barrier in the receiver's shared memory counts what has come: nobody waits for more than that, and there is no
// fence, which a barrier over the cluster takes for stores. Elsewhere it is that barrier.
#pragma once

#include "device/bulk.cuh"

#if TUNESMITH_SM >= 900

#if !defined(TUNESMITH_HOST_EXECUTOR) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TUNESMITH_COUNTED_MESSAGES 1
#else
#define TUNESMITH_COUNTED_MESSAGES 0
#endif

namespace tunesmith {

class ClusterMessages {
 public:
  static constexpr int bytes = 16;  ///< of shared memory that this needs, aligned to 8

  /// All threads of a block, at its start. `expected`: bytes that it will be sent, by itself as well.
  __device__ __forceinline__ ClusterMessages(unsigned char* memory, int expected) : memory_(memory) {
#if TUNESMITH_COUNTED_MESSAGES
    if (thread_index() == 0) {
      barrier_init(shared_address(memory), 1);
      barriers_ready();
      barrier_arrive_expecting(shared_address(memory), expected);
    }
    // The fence above is all that others need to see.
    sync_warp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
    cluster_arrive();
#endif
  }
  /// All threads, before the first message: nobody may touch the memory of a block that has not started.
  __device__ __forceinline__ void open() const { cluster_wait(); }
  /// To what lies at `object` in the block `rank`, where nothing else is written or read until await().
  __device__ __forceinline__ void send(Bits<16>* object, int rank, const Bits<16>& message) const {
#if TUNESMITH_COUNTED_MESSAGES
    send_async(address_of_rank(shared_address(object), rank), message.word[0], message.word[1], message.word[2],
               message.word[3], address_of_rank(shared_address(memory_), rank));
#else
    *shared_of_rank(object, rank) = message;
#endif
  }
  /// All threads: everything has come. A block may leave then.
  __device__ __forceinline__ void await() const {
#if TUNESMITH_COUNTED_MESSAGES
    barrier_wait_cluster(shared_address(memory_), 0);
#else
    sync_cluster();
#endif
  }

 private:
  unsigned char* const memory_;
};

}  // namespace tunesmith

#undef TUNESMITH_COUNTED_MESSAGES

#endif
