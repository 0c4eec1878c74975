// Faults of kernels and the host executor's error messages.
#include <gtest/gtest.h>

#include <thread>

#include "jit/host/sanitizer_fiber.h"
#include "tests/jit/host/kernels.h"

namespace tunesmith {
namespace {

struct FaultParams {
  int what;
  int* out;
};

constexpr const char* faulty = R"(
struct FaultParams { int what; int* out; };
extern "C" __global__ void faulty(const __grid_constant__ FaultParams params) {
  using namespace tunesmith;
  TUNESMITH_SHARED(int, fixed, 32);
  uint64* const words = reinterpret_cast<uint64*>(params.out);
  const int i = thread_index();
  switch (params.what) {
    case 0:  // no fault: the last threads return early, the other warps continue
      if (i >= 32) return;
      sync_warp();
      params.out[block_index() * 32 + i] = shuffle(i, 7);
      return;
    case 1:
      sync_block();
      if (block_index() == 5 && i == 7) return;
      sync_block();
      return;
    case 2:
      if (i != 40) shuffle_xor(i, 1);
      return;
    case 3:
      if (i % 2 == 0) shuffle_xor(i, 2);
      else ballot(true);
      return;
    case 4:
      if (i < 32) sync_block();
      else sync_cluster();
      return;
    case 5:
      if (i == 3) sync_block();
      else sync_warp();
      sync_block();
      return;
    case 6: params.out[0] = static_cast<int>(load<4, LoadHint::plain>(reinterpret_cast<char*>(params.out) + 2).word[0]); return;
    case 7: store<16, StoreHint::plain>(params.out + 1, Bits<16>{}); return;
    case 8: params.out[0] = *shared_of_rank(fixed, cluster_size()); return;
    case 9: params.out[0] = *shared_of_rank(params.out, 0); return;
    case 10:
      if (cluster_rank() == 1) return;
      sync_cluster();
      return;
    case 11:  // a thread awaits a tag that no thread publishes; the other threads of its block wait for it
      if (i == 0) publish(words + block_index(), 1, 0);
      if (i == 1) await(words + (block_index() + 1) % 3, block_index() == 2 ? 4 : 1);
      sync_warp();
      sync_block();
      return;
    case 12:  // a block diverges, and another awaits a word from it
      if (block_index() == 0 && i == 5) sync_block();
      else if (block_index() == 0) sync_warp();
      else if (i == 0) await(words, 1);
      sync_block();
      return;
    case 13:  // the same, but the fault is a thread that returned
      if (block_index() == 1 && i == 9) return;
      if (block_index() == 0 && i == 33) await(words, 1);
      sync_block();
      if (i == 0) publish(words, 1, 0);
      return;
    case 14: await(reinterpret_cast<uint64*>(params.out + 1), 1); return;
    case 15: publish(reinterpret_cast<uint64*>(params.out + 1), 1, 0); return;
    case 16: cluster_arrive(); cluster_arrive(); return;
    case 17: cluster_wait(); return;
    case 18: cluster_arrive(); sync_cluster(); return;
    case 19:  // every block awaits the next one's second tag before it publishes its own
      if (i == 0) publish(words + block_index(), 1, 0);
      sync_block();
      if (i == 1) await(words + (block_index() + 1) % 3, 1);
      sync_block();
      if (i == 1) await(words + (block_index() + 1) % 3, 2);
      sync_block();
      if (i == 0) publish(words + block_index(), 2, 0);
      return;
    case 20:
      sync_cluster();
      if (cluster_rank() == 1 && i == 6) return;
      cluster_arrive();
      cluster_wait();
      return;
    case 22: params.out[0] = reinterpret_cast<Bits<16>*>(params.out + 2)->word[1]; return;
    case 23: *reinterpret_cast<volatile uint64*>(params.out + 1) = 1; return;
    case 24: store<4, StoreHint::plain>(fixed + i, Bits<4>{}); return;
    case 25: params.out[0] = load<1, LoadHint::plain>(dynamic_shared() + i).word; return;
    case 26: params.out[0] = static_cast<int>(load_if<4, LoadHint::plain>(i == 33, &words, Bits<4>{}).word[0]); return;
    case 27: prefetch_to_l2<LoadHint::plain>(fixed, 64); return;
    case 28: async_copy<4>(fixed, fixed + 4); return;
    case 29: params.out[0] = static_cast<int>(load<4, LoadHint::plain>(shared_of_rank(fixed, 1)).word[0]); return;
    case 21: reinterpret_cast<volatile char*>(dynamic_shared())[160 + i] = 1; return;
  }
}
extern "C" __global__ void greedy(const __grid_constant__ FaultParams params) {
  TUNESMITH_SHARED(char, a, 40000);
  TUNESMITH_SHARED(char, b, 10000);
  params.out[0] = a[0] + b[0];
}
extern "C" __global__ void full(const __grid_constant__ FaultParams params) {
  TUNESMITH_SHARED(char, a, 40000);
  params.out[0] = a[0];
}
extern "C" __global__ void two_dimensional(const __grid_constant__ FaultParams params) {
  using namespace tunesmith;
  if (lane_index() == 2) return;
  sync_block();
}
)";

class HostExecutorFaults : public testing::Test {
 protected:
  static void SetUpTestSuite() { kernels = new Kernels(faulty); }
  static void TearDownTestSuite() {
    delete kernels;
    kernels = nullptr;
  }

  // Returns the message of the fault, and checks that the device still works.
  static std::string fault(const KernelLaunch& launch, int what, ErrorCode code = ErrorCode::device_failed) {
    std::string message = "no error";
    alignas(16) int out[256] = {};
    try {
      kernels->run(launch, FaultParams{what, out});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      message = error.what();
    }
    std::fill(std::begin(out), std::end(out), 0);
    kernels->run(launch_of("faulty", {8}, {64}), FaultParams{0, out});
    for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], 7) << "a good launch after: " << message;
    return message;
  }

  static Kernels* kernels;
};
Kernels* HostExecutorFaults::kernels = nullptr;

KernelLaunch one_block() { return launch_of("faulty", {1}, {64}); }

TEST_F(HostExecutorFaults, ThreadThatNeverReachesTheBarrier) {
  EXPECT_EQ(fault(launch_of("faulty", {8}, {64}), 1),
            "kernel 'faulty': thread (0,0,0) of block 5 waits at sync_block (#2) but thread (7,0,0) has returned");
}

TEST_F(HostExecutorFaults, LaneThatSkipsAShuffle) {
  EXPECT_EQ(fault(one_block(), 2),
            "kernel 'faulty': thread (32,0,0) of block 0 waits in shuffle_xor but thread (40,0,0) has returned");
}

TEST_F(HostExecutorFaults, LanesInDifferentCollectives) {
  EXPECT_EQ(fault(one_block(), 3),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in shuffle_xor but thread (1,0,0) waits in ballot");
}

TEST_F(HostExecutorFaults, ThreadsAtDifferentBarriers) {
  EXPECT_EQ(fault(one_block(), 4),
            "kernel 'faulty': thread (0,0,0) of block 0 waits at sync_block (#1) but thread (32,0,0) waits at "
            "sync_cluster (#1)");
}

TEST_F(HostExecutorFaults, LaneAtTheBlockBarrierWhileItsWarpWaits) {
  EXPECT_EQ(fault(one_block(), 5),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in sync_warp but thread (3,0,0) waits at sync_block (#1)");
}

TEST_F(HostExecutorFaults, BlockThatReturnsBeforeTheClusterBarrier) {
  KernelLaunch launch = launch_of("faulty", {4}, {64});
  launch.cluster = {2};
  const std::string message = fault(launch, 10);
  EXPECT_TRUE(message ==
                  "kernel 'faulty': thread (0,0,0) of block 0 waits at sync_cluster (#1) but thread (0,0,0) of "
                  "block 1 has returned" ||
              message ==
                  "kernel 'faulty': thread (0,0,0) of block 2 waits at sync_cluster (#1) but thread (0,0,0) of "
                  "block 3 has returned")
      << message;
}

KernelLaunch cooperative(std::uint32_t blocks) {
  KernelLaunch launch = launch_of("faulty", {blocks}, {64});
  launch.cooperative = true;
  return launch;
}

TEST_F(HostExecutorFaults, TagThatNoThreadPublishes) {
  const std::string message = fault(cooperative(3), 11);
  EXPECT_TRUE(message.starts_with("kernel 'faulty': thread (1,0,0) of block 2 waits in await for tag 4 in the word at 0x"))
      << message;
  EXPECT_TRUE(message.ends_with(", which has tag 1, and no thread is left to publish it")) << message;

  const std::string several = fault(cooperative(3), 19);
  EXPECT_TRUE(several.starts_with("kernel 'faulty': thread (1,0,0) of block 0 waits in await for tag 2 in the word at 0x"))
      << several;
  EXPECT_TRUE(several.ends_with(", which has tag 1, and no thread is left to publish it; 2 more wait in await")) << several;

  const std::string apart = fault(launch_of("faulty", {3}, {64}), 11);
  EXPECT_NE(apart.find(" waits in await for tag "), std::string::npos) << apart;
  EXPECT_TRUE(apart.ends_with("; only blocks of a cluster or of a cooperative launch are guaranteed to run concurrently"))
      << apart;
}

TEST_F(HostExecutorFaults, ReportsTheCauseAndNotTheAwait) {
  EXPECT_EQ(fault(cooperative(2), 12),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in sync_warp but thread (5,0,0) waits at sync_block (#1)");
  EXPECT_EQ(fault(cooperative(2), 13),
            "kernel 'faulty': thread (0,0,0) of block 1 waits at sync_block (#1) but thread (9,0,0) has returned");
}

TEST_F(HostExecutorFaults, ClusterArriveAndWaitThatDoNotMatch) {
  EXPECT_EQ(fault(one_block(), 16),
            "kernel 'faulty': thread (0,0,0) of block 0 calls cluster_arrive after cluster_arrive; cluster_wait must come "
            "first");
  EXPECT_EQ(fault(one_block(), 17),
            "kernel 'faulty': thread (0,0,0) of block 0 calls cluster_wait without cluster_arrive before it");
  EXPECT_EQ(fault(one_block(), 18),
            "kernel 'faulty': thread (0,0,0) of block 0 calls sync_cluster after cluster_arrive; cluster_wait must come "
            "first");
  KernelLaunch launch = launch_of("faulty", {2}, {64});
  launch.cluster = {2};
  EXPECT_EQ(fault(launch, 20),
            "kernel 'faulty': thread (0,0,0) of block 0 waits in cluster_wait (#2) but thread (6,0,0) of block 1 has "
            "returned");
}

TEST_F(HostExecutorFaults, ThreadsAreNamedInThreeDimensions) {
  EXPECT_EQ(fault(launch_of("two_dimensional", {1}, {2, 2, 3}), 0),
            "no error");  // as on the GPU, lanes are linear in x, so there is no lane 2
  EXPECT_EQ(fault(launch_of("two_dimensional", {1}, {3, 2}), 0),
            "kernel 'two_dimensional': thread (0,0,0) of block 0 waits at sync_block (#1) but thread (2,0,0) has returned");
}

TEST_F(HostExecutorFaults, MisalignedAccesses) {
  EXPECT_NE(fault(one_block(), 6).find("thread (0,0,0) of block 0: misaligned load from 0x"), std::string::npos);
  const std::string message = fault(one_block(), 7);
  EXPECT_NE(message.find("misaligned store to 0x"), std::string::npos);
  EXPECT_NE(message.find("a multiple of 16"), std::string::npos);
  EXPECT_NE(fault(one_block(), 14).find("misaligned await of 0x"), std::string::npos);
  EXPECT_NE(fault(one_block(), 15).find("misaligned publish to 0x"), std::string::npos);
}

TEST_F(HostExecutorFaults, MisalignedObjects) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "kernels have the sanitizers of this build";
#endif
  const std::string load = fault(one_block(), 22);
  EXPECT_NE(load.find("thread (0,0,0) of block 0: misaligned access to '"), std::string::npos) << load;
  EXPECT_NE(load.find(" in kernel.cu:"), std::string::npos) << load;
  EXPECT_TRUE(load.ends_with("; the address must be a multiple of 16")) << load;
  const std::string store = fault(one_block(), 23);
  EXPECT_TRUE(store.ends_with("; the address must be a multiple of 8")) << store;
}

TEST_F(HostExecutorFaults, AddressesInOtherMemory) {
  const auto expect = [](const KernelLaunch& launch, int what, const char* access, const char* memory) {
    const std::string message = fault(launch, what);
    EXPECT_NE(message.find(std::string(" of block 0: ") + access + " 0x"), std::string::npos) << message;
    EXPECT_TRUE(message.ends_with(std::string(memory) + "; the instruction is for global memory")) << message;
  };
  KernelLaunch dynamic = one_block();
  dynamic.dynamic_smem_bytes = 128;
  KernelLaunch cluster = launch_of("faulty", {2}, {64});
  cluster.cluster = {2};
  expect(one_block(), 24, "store to", "which is in shared memory");
  expect(dynamic, 25, "load from", "which is in shared memory");
  expect(one_block(), 26, "load from", "which is a local variable");
  expect(one_block(), 27, "prefetch of", "which is in shared memory");
  expect(one_block(), 28, "async_copy from", "which is in shared memory");
  expect(cluster, 29, "load from", "which is in shared memory");
}

TEST_F(HostExecutorFaults, SharedMemoryOfABlockThatDoesNotExist) {
  EXPECT_EQ(fault(one_block(), 8),
            "kernel 'faulty': thread (0,0,0) of block 0 calls shared_of_rank for rank 1 of a cluster of 1");
  EXPECT_EQ(fault(one_block(), 9),
            "kernel 'faulty': thread (0,0,0) of block 0 calls shared_of_rank for an object that is not in its block's "
            "shared memory");
}

TEST_F(HostExecutorFaults, TooMuchSharedMemory) {
  EXPECT_EQ(fault(launch_of("greedy", {1}, {1}), 0),
            "kernel 'greedy': static shared memory of 50000 bytes; allowed: at most 49152");
  KernelLaunch launch = launch_of("full", {1}, {1});
  launch.dynamic_smem_bytes = 200000;
  EXPECT_EQ(fault(launch, 0), "kernel 'full': static and dynamic shared memory of 240000 bytes; allowed: at most 232448");
}

TEST_F(HostExecutorFaults, WritesBeyondDynamicSharedMemory) {
  if (host::with_asan) GTEST_SKIP() << "AddressSanitizer ends the process";
  KernelLaunch launch = launch_of("faulty", {3}, {32});
  for (const int bytes : {0, 160, 191}) {
    launch.dynamic_smem_bytes = bytes;
    EXPECT_EQ(fault(launch, 21),
              "kernel 'faulty': block 0 writes beyond its " + std::to_string(bytes) + " bytes of dynamic shared memory");
  }
  launch.dynamic_smem_bytes = 192;
  EXPECT_EQ(fault(launch, 21), "no error");
}

TEST_F(HostExecutorFaults, LaunchesThatCudaWouldReject) {
  constexpr ErrorCode code = ErrorCode::invalid_argument;
  EXPECT_EQ(fault(launch_of("faulty", {1}, {1025}), 0, code),
            "kernel 'faulty' cannot be launched with a block of (1025,1,1) threads; allowed: 1 to 1024");
  EXPECT_NE(fault(launch_of("faulty", {1}, {0}), 0, code).find("a block of (0,1,1) threads"), std::string::npos);
  EXPECT_NE(fault(launch_of("faulty", {0}, {1}), 0, code).find("a grid of (0,1,1) blocks"), std::string::npos);
  EXPECT_NE(fault(launch_of("faulty", {1, 65536}, {1}), 0, code).find("a grid of (1,65536,1)"), std::string::npos);

  KernelLaunch launch = one_block();
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{227 * 1024 + 1}}) {
    launch.dynamic_smem_bytes = bytes;
    EXPECT_EQ(fault(launch, 0, code), "kernel 'faulty' cannot be launched with dynamic shared memory of " +
                                          std::to_string(bytes) + " bytes; allowed: 0 to 232448");
    EXPECT_EQ(kernels->module->occupancy(launch), 0);
  }
  launch = launch_of("faulty", {5}, {64});
  EXPECT_EQ(kernels->module->occupancy(launch), 1);
  launch.cluster = {2};
  EXPECT_EQ(fault(launch, 0, code),
            "kernel 'faulty' cannot be launched with a grid of (5,1,1) blocks; allowed: multiples of the cluster (2,1,1)");
  launch.cluster = {32};
  EXPECT_NE(fault(launch, 0, code).find("a cluster of (32,1,1) blocks; allowed: 1 to 16"), std::string::npos);
}

TEST_F(HostExecutorFaults, UnknownEntry) {
  EXPECT_EQ(fault(launch_of("fault", {1}, {1}), 0),
            "the binary has no kernel 'fault'; it has faulty, greedy, full, two_dimensional");
}

TEST_F(HostExecutorFaults, ImagesThatAreNotKernels) {
  const std::string images[] = {"", "garbage",
                                std::string("\x7f"
                                            "ELF") +
                                    std::string(100, '\0')};
  for (const std::string& image : images) {
    Binary binary;
    binary.image = image;
    try {
      kernels->device.load(binary);
      ADD_FAILURE() << "loaded an image of " << image.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_failed);
    }
  }
}

TEST_F(HostExecutorFaults, FaultsDuringConcurrentLaunches) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 20; ++round) {
        alignas(16) int out[256] = {};
        if (t % 2 == 0) {
          EXPECT_THROW(kernels->run(launch_of("faulty", {8}, {64}), FaultParams{1, out}), Error);
        } else {
          kernels->run(launch_of("faulty", {8}, {64}), FaultParams{0, out});
          for (const int value : out) EXPECT_EQ(value, 7);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(HostExecutorOptions, StackSizesAreChecked) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 30}) {
    HostDeviceOptions options;
    options.stack_bytes = bytes;
    try {
      HostDevice device(options);
      ADD_FAILURE() << "accepted " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos);
    }
  }
}

TEST(HostExecutorOptions, LargeStacksHoldLargeArrays) {
  HostDeviceOptions options;
  options.stack_bytes = 1 << 20;
  Kernels kernels(R"(
struct FaultParams { int what; int* out; };
extern "C" __global__ void deep(const __grid_constant__ FaultParams params) {
  volatile int large[200000];
  for (int i = 0; i < 200000; ++i) large[i] = i + tunesmith::thread_index();
  tunesmith::sync_block();
  params.out[tunesmith::thread_index()] = large[199999];
})",
                  options);
  int out[40] = {};
  kernels.run(launch_of("deep", {1}, {40}), FaultParams{0, out});
  for (int i = 0; i < 40; ++i) EXPECT_EQ(out[i], 199999 + i);
}

}  // namespace
}  // namespace tunesmith
