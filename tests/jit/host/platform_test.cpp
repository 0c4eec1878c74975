// The platform's functions except conversions, and the layout of blocks, clusters and grids.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "tests/jit/host/kernels.h"

namespace tunesmith {
namespace {

TEST(HostExecutorPlatform, BlockIndexIsLinearOverXAndY) {
  struct Params {
    std::int64_t* out;
    int threads;
  };
  Kernels kernels(R"(
struct Params { tunesmith::int64* out; int threads; };
extern "C" __global__ void __launch_bounds__((32 + 16)) where(const __grid_constant__ Params params) {
  using namespace tunesmith;
  params.out[block_index() * params.threads + thread_index()] =
      block_index() * 1000000 + thread_index() * 10000 + lane_index() * 100 + warp_index();
})");
  std::vector<std::int64_t> out(6 * 48, -1);
  kernels.run(launch_of("where", {3, 2}, {48}), Params{out.data(), 48});
  for (std::int64_t block = 0; block < 6; ++block)
    for (std::int64_t thread = 0; thread < 48; ++thread)
      EXPECT_EQ(out[block * 48 + thread], block * 1000000 + thread * 10000 + thread % 32 * 100 + thread / 32);
}

TEST(HostExecutorPlatform, SeveralWorkersRunEveryBlockOnce) {
  struct Params {
    int* count;
  };
  HostDeviceOptions options;
  options.workers = 4;
  Kernels kernels(R"(
struct Params { int* count; };
extern "C" __global__ void visit(const __grid_constant__ Params params) {
  tunesmith::sync_block();
  if (tunesmith::thread_index() == 33) ++params.count[tunesmith::block_index()];
})",
                  options);
  std::vector<int> count(5000);
  kernels.run(launch_of("visit", {5000}, {40}), Params{count.data()});
  EXPECT_EQ(count, std::vector<int>(5000, 1));
}

TEST(HostExecutorPlatform, ShufflesOfFourAndEightBytes) {
  struct Params {
    float* xor_out;
    std::int64_t* from_out;
    double* chain_out;
  };
  Kernels kernels(R"(
struct Params { float* xor_out; tunesmith::int64* from_out; double* chain_out; };
extern "C" __global__ void shuffles(const __grid_constant__ Params params) {
  using namespace tunesmith;
  const int i = thread_index();
  params.xor_out[i] = shuffle_xor(i * 1.5f, 5);
  params.from_out[i] = shuffle(static_cast<int64>(i) << 40, (lane_index() + 3) % 32);
  double value = i;
  for (int distance = 16; distance > 0; distance /= 2) value = value + shuffle_xor(value, distance);
  params.chain_out[i] = value;
})");
  std::vector<float> xor_out(64);
  std::vector<std::int64_t> from_out(64);
  std::vector<double> chain_out(64);
  kernels.run(launch_of("shuffles", {1}, {64}), Params{xor_out.data(), from_out.data(), chain_out.data()});
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(xor_out[i], static_cast<float>(i ^ 5) * 1.5f);
    EXPECT_EQ(from_out[i], static_cast<std::int64_t>(i / 32 * 32 + (i + 3) % 32) << 40);
    EXPECT_EQ(chain_out[i], i < 32 ? 496 : 1520);
  }
}

TEST(HostExecutorPlatform, VotesOfFullAndPartialWarps) {
  struct Params {
    std::uint32_t* out;
  };
  Kernels kernels(R"(
struct Params { tunesmith::uint32* out; };
extern "C" __global__ void votes(const __grid_constant__ Params params) {
  using namespace tunesmith;
  uint32* out = params.out + thread_index() * 6;
  out[0] = ballot(thread_index() % 3 == 0);
  out[1] = any_in_warp(thread_index() == 33);
  out[2] = any_in_warp(false);
  out[3] = all_in_warp(true);
  out[4] = all_in_warp(thread_index() != 33);
  sync_warp();
  out[5] = ballot(true);
})");
  std::vector<std::uint32_t> out(37 * 6);
  kernels.run(launch_of("votes", {1}, {37}), Params{out.data()});
  for (std::uint32_t i = 0; i < 37; ++i) {
    const bool last_warp = i >= 32;
    std::uint32_t thirds = 0;
    for (std::uint32_t lane = 0; lane < (last_warp ? 5u : 32u); ++lane)
      thirds |= static_cast<std::uint32_t>((i / 32 * 32 + lane) % 3 == 0) << lane;
    const std::uint32_t expected[6] = {thirds, last_warp, 0, 1, !last_warp, last_warp ? 0x1fu : 0xffffffffu};
    for (int j = 0; j < 6; ++j) EXPECT_EQ(out[i * 6 + j], expected[j]) << "thread " << i << ", vote " << j;
  }
}

TEST(HostExecutorPlatform, ShuffleFromALaneThatDoesNotExistIsNaN) {
  struct Params {
    float* out;
  };
  Kernels kernels(R"(
struct Params { float* out; };
extern "C" __global__ void partial(const __grid_constant__ Params params) {
  params.out[tunesmith::thread_index()] = tunesmith::shuffle_xor(1.0f + tunesmith::thread_index(), 4);
})");
  std::vector<float> out(6);
  kernels.run(launch_of("partial", {1}, {6}), Params{out.data()});
  EXPECT_EQ(out[0], 5.0f);
  EXPECT_EQ(out[1], 6.0f);
  EXPECT_TRUE(std::isnan(out[2]) && std::isnan(out[3]));
  EXPECT_EQ(out[4], 1.0f);
}

TEST(HostExecutorPlatform, StaticSharedMemoryIsPerBlockAndStartsAsNaN) {
  struct Params {
    float* out;
    int* first;
  };
  Kernels kernels(R"(
struct Params { float* out; int* first; };
template <int value>
__device__ __forceinline__ int one_of_two() {
  TUNESMITH_SHARED(int, word, 1);
  if (tunesmith::thread_index() == 0) word[0] = value;
  tunesmith::sync_block();
  return word[0];
}
extern "C" __global__ void reversed(const __grid_constant__ Params params) {
  using namespace tunesmith;
  TUNESMITH_SHARED(float, values, 96);
  const int i = thread_index();
  params.first[block_index() * 96 + i] = static_cast<int>(bits_of(values[i]) == 0xffffffffu);
  values[i] = static_cast<float>(block_index() * 96 + i);
  sync_block();
  params.out[block_index() * 96 + i] = values[95 - i] + 1000000.0f * (one_of_two<3>() * 10 + one_of_two<4>());
})");
  std::vector<float> out(96 * 50);
  std::vector<int> first(out.size());
  kernels.run(launch_of("reversed", {50}, {96}), Params{out.data(), first.data()});
  EXPECT_EQ(first, std::vector<int>(first.size(), 1));
  for (int block = 0; block < 50; ++block)
    for (int i = 0; i < 96; ++i) EXPECT_EQ(out[block * 96 + i], 34000000.0f + static_cast<float>(block * 96 + 95 - i));
}

TEST(HostExecutorPlatform, DynamicSharedMemoryStartsAsNaNInEveryBlockAndIsAligned) {
  struct Params {
    int* all_set;
    std::uint64_t* address;
    int bytes;
  };
  HostDeviceOptions options;
  options.workers = 1;  // the second block gets the memory that the first one wrote
  Kernels kernels(R"(
struct Params { int* all_set; tunesmith::uint64* address; int bytes; };
extern "C" __global__ void look(const __grid_constant__ Params params) {
  unsigned char* memory = tunesmith::dynamic_shared();
  int all_set = 1;
  for (int i = 0; i < params.bytes; ++i) all_set &= memory[i] == 0xff;
  for (int i = 0; i < params.bytes; ++i) memory[i] = 7;
  params.all_set[tunesmith::block_index()] = all_set;
  params.address[0] = reinterpret_cast<tunesmith::uint64>(memory);
})",
                  options);
  for (const int bytes : {1, 1000, 49 * 1024, 227 * 1024}) {
    std::vector<int> all_set(3);
    std::uint64_t address = 0;
    KernelLaunch launch = launch_of("look", {3}, {1});
    launch.dynamic_smem_bytes = bytes;
    kernels.run(launch, Params{all_set.data(), &address, bytes});
    EXPECT_EQ(all_set, std::vector<int>(3, 1));
    EXPECT_EQ(address % (bytes > 48 * 1024 ? 1024 : 16), 0u);
    // Up to 48 KiB the alignment is exactly 16 bytes.
    if (bytes <= 48 * 1024) {
      EXPECT_EQ(address % 32, 16u);
    }
  }
}

TEST(HostExecutorPlatform, ClustersReadEachOthersSharedMemory) {
  struct Params {
    int* out;
  };
  Kernels kernels(R"(
struct Params { int* out; };
extern "C" __global__ void neighbours(const __grid_constant__ Params params) {
  using namespace tunesmith;
  TUNESMITH_SHARED(int, fixed, 40);
  int* dynamic = reinterpret_cast<int*>(dynamic_shared());
  const int i = thread_index();
  fixed[i] = static_cast<int>(block_index()) * 100 + i;
  dynamic[i] = -fixed[i];
  sync_cluster();
  const int next = (cluster_rank() + 1) % cluster_size();
  int* out = params.out + (block_index() * 40 + i) * 4;
  out[0] = cluster_rank();
  out[1] = cluster_size();
  out[2] = *shared_of_rank(fixed + i, next);
  out[3] = shared_of_rank(dynamic, next)[i];
  sync_cluster();
})");
  for (const std::uint32_t size : {1u, 2u, 4u, 8u, 16u}) {
    std::vector<int> out(32 * 40 * 4);
    KernelLaunch launch = launch_of("neighbours", {32}, {40});
    launch.cluster = {size};
    launch.dynamic_smem_bytes = 160;
    kernels.run(launch, Params{out.data()});
    for (std::uint32_t block = 0; block < 32; ++block)
      for (int i = 0; i < 40; ++i) {
        const int* const row = &out[(block * 40 + static_cast<std::uint32_t>(i)) * 4];
        const int next = static_cast<int>(block / size * size + (block + 1) % size) * 100 + i;
        EXPECT_EQ(row[0], static_cast<int>(block % size));
        EXPECT_EQ(row[1], static_cast<int>(size));
        EXPECT_EQ(row[2], next);
        EXPECT_EQ(row[3], -next);
      }
  }
}

TEST(HostExecutorPlatform, RanksOfATwoDimensionalClusterAreLinearInX) {
  struct Params {
    int* out;
  };
  Kernels kernels(R"(
struct Params { int* out; };
extern "C" __global__ void rank(const __grid_constant__ Params params) {
  params.out[tunesmith::block_index()] = tunesmith::cluster_rank();
})");
  std::vector<int> out(24, -1);
  KernelLaunch launch = launch_of("rank", {6, 4}, {1});
  launch.cluster = {3, 2};
  kernels.run(launch, Params{out.data()});
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x) EXPECT_EQ(out[y * 6 + x], y % 2 * 3 + x % 3);
}

TEST(HostExecutorPlatform, CooperativeGridsAreResidentTogether) {
  struct Params {
    std::uint64_t* address;
  };
  HostDeviceOptions options;
  options.workers = 1;
  Kernels kernels(R"(
struct Params { tunesmith::uint64* address; };
extern "C" __global__ void where(const __grid_constant__ Params params) {
  params.address[tunesmith::block_index()] = reinterpret_cast<tunesmith::uint64>(tunesmith::dynamic_shared());
})",
                  options);
  for (const bool cooperative : {false, true}) {
    std::vector<std::uint64_t> address(6);
    KernelLaunch launch = launch_of("where", {3, 2}, {33});
    launch.dynamic_smem_bytes = 64;
    launch.cooperative = cooperative;
    kernels.run(launch, Params{address.data()});
    // Consecutive blocks of a worker use the same memory; blocks that are resident together do not.
    EXPECT_EQ(std::set(address.begin(), address.end()).size(), cooperative ? 6u : 1u);
  }
}

TEST(HostExecutorPlatform, ClusterArriveAndWait) {
  struct Params {
    int* out;
    std::uint64_t* word;
  };
  Kernels kernels(R"(
struct Params { int* out; tunesmith::uint64* word; };
extern "C" __global__ void halves(const __grid_constant__ Params params) {
  using namespace tunesmith;
  TUNESMITH_SHARED(int, inbox, 40);
  const int i = thread_index();
  const int next = (cluster_rank() + 1) % cluster_size();
  uint64* word = params.word + block_index() / cluster_size();
  inbox[i] = 0;
  cluster_arrive();
  // Arriving is sufficient: rank 0 completes its wait while rank 1 is still here.
  if (cluster_rank() == 1 && i == 3) await(word, 1);
  cluster_wait();
  if (cluster_rank() == 0 && i == 0) publish(word, 1, 0);
  for (int round = 1; round <= 3; ++round) {
    *shared_of_rank(inbox + i, next) += round * 1000 + static_cast<int>(block_index());
    cluster_arrive();
    cluster_wait();
    sync_cluster();
  }
  params.out[block_index() * 40 + i] = inbox[i];
})");
  for (const std::uint32_t size : {1u, 2u, 4u}) {
    std::vector<int> out(8 * 40);
    std::vector<std::uint64_t> words(8, size == 1 ? std::uint64_t{1} << 32 : 0);
    KernelLaunch launch = launch_of("halves", {8}, {40});
    launch.cluster = {size};
    kernels.run(launch, Params{out.data(), words.data()});
    for (std::uint32_t block = 0; block < 8; ++block)
      for (std::uint32_t i = 0; i < 40; ++i) {
        const std::uint32_t from = block / size * size + (block + size - 1) % size;
        EXPECT_EQ(out[block * 40 + i], static_cast<int>(6000 + 3 * from)) << "cluster " << size << ", block " << block;
      }
  }
}

// As in real kernels: two sets of words alternate, tags continue from launch to launch, each lane awaits one word.
TEST(HostExecutorPlatform, BlocksOfAGridExchangeValues) {
  struct Params {
    std::uint64_t* words;
    std::uint32_t* out;
    int blocks, rounds;
  };
  Kernels kernels(R"(
struct Params { tunesmith::uint64* words; tunesmith::uint32* out; int blocks, rounds; };
extern "C" __global__ void exchange(const __grid_constant__ Params params) {
  using namespace tunesmith;
  TUNESMITH_SHARED(uint32, total, 1);
  const int block = static_cast<int>(block_index());
  const uint32 even = tag_of(params.words + block), odd = tag_of(params.words + params.blocks + block);
  uint32 tag = even > odd ? even : odd;
  sync_block();
  uint32 value = static_cast<uint32>(block) + 1;
  for (int round = 0; round < params.rounds; ++round) {
    uint64* set = params.words + (++tag & 1u) * params.blocks;
    if (warp_index() == 0) {
      if (lane_index() == 0) publish(set + block, tag, value);
      uint32 sum = 0;
      for (int other = lane_index(); other < params.blocks; other += 32) sum += await(set + other, tag);
      for (int distance = 16; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
      if (lane_index() == 0) total[0] = sum;
    }
    sync_block();
    value = value * 3 + total[0];
    sync_block();
  }
  if (thread_index() == 50) params.out[block] = value;
})");
  for (const std::uint32_t blocks : {1u, 3u, 40u}) {
    constexpr int rounds = 7;
    std::vector<std::uint32_t> expected(blocks);
    std::iota(expected.begin(), expected.end(), 1u);
    for (int round = 0; round < rounds; ++round) {
      const std::uint32_t sum = std::accumulate(expected.begin(), expected.end(), 0u);
      for (std::uint32_t& value : expected) value = value * 3 + sum;
    }
    std::vector<std::uint64_t> words(std::size_t{2} * blocks);
    KernelLaunch launch = launch_of("exchange", {blocks}, {64});
    launch.cooperative = true;
    for (std::uint32_t again = 1; again <= 3; ++again) {
      std::vector<std::uint32_t> out(blocks);
      kernels.run(launch, Params{words.data(), out.data(), static_cast<int>(blocks), rounds});
      EXPECT_EQ(out, expected) << blocks << " blocks, launch " << again;
      EXPECT_EQ(words[again * rounds % 2 * blocks] >> 32, again * rounds) << "the tag of the last exchange";
    }
  }
}

TEST(HostExecutorPlatform, LoadsStoresAndAsynchronousCopiesOfEveryWidthAndHint) {
  struct Params {
    const unsigned char* in;
    unsigned char* out;
  };
  Kernels kernels(R"(
struct Params { const unsigned char* in; unsigned char* out; };
template <int bytes, tunesmith::LoadHint load_hint, tunesmith::StoreHint store_hint>
__device__ __forceinline__ void copy(const unsigned char* in, unsigned char* out) {
  tunesmith::store<bytes, store_hint>(out, tunesmith::load<bytes, load_hint>(in));
}
template <int bytes>
__device__ __forceinline__ void copy_all(const unsigned char* in, unsigned char* out) {
  using namespace tunesmith;
  copy<bytes, LoadHint::plain, StoreHint::plain>(in, out);
  copy<bytes, LoadHint::no_allocate, StoreHint::streaming>(in + 16, out + 16);
  copy<bytes, LoadHint::streaming, StoreHint::evict_first>(in + 32, out + 32);
  copy<bytes, LoadHint::evict_first, StoreHint::plain>(in + 48, out + 48);
  copy<bytes, LoadHint::evict_last, StoreHint::plain>(in + 64, out + 64);
  if constexpr (bytes >= 4) {
    async_copy<bytes>(dynamic_shared(), in + 80);
    async_copy_commit();
    async_copy_wait<0>();
    store<bytes, StoreHint::plain>(out + 80, *reinterpret_cast<const Bits<bytes>*>(dynamic_shared()));
  }
}
extern "C" __global__ void copies(const __grid_constant__ Params params) {
  copy_all<2>(params.in, params.out);
  copy_all<4>(params.in, params.out + 96);
  copy_all<8>(params.in, params.out + 192);
  copy_all<16>(params.in, params.out + 288);
  copy_all<1>(params.in + 3, params.out + 384 + 3);
})");
  alignas(16) unsigned char in[96];
  alignas(16) unsigned char out[5 * 96] = {};
  std::iota(std::begin(in), std::end(in), static_cast<unsigned char>(1));
  KernelLaunch launch = launch_of("copies", {1}, {1});
  launch.dynamic_smem_bytes = 16;
  kernels.run(launch, Params{in, out});
  for (int width = 0; width < 4; ++width)
    for (int i = 0; i < 96; ++i) {
      const int bytes = 2 << width;
      const bool copied = i % 16 < bytes && (i < 80 || bytes >= 4);
      EXPECT_EQ(out[width * 96 + i], copied ? in[i] : 0) << bytes << " bytes, at " << i;
    }
  for (int i = 0; i < 96; ++i) EXPECT_EQ(out[4 * 96 + i], i % 16 == 3 && i < 80 ? in[i] : 0) << "1 byte, at " << i;
}

TEST(HostExecutorPlatform, SourceSeesTheRequestedArchitecture) {
  const std::string text = R"(
struct Params { int* out; };
extern "C" __global__ void gate(const __grid_constant__ Params params) {
#if TUNESMITH_SM >= 900
  *params.out = 90 + tunesmith::cluster_rank();
#elif TUNESMITH_SM >= 800
  *params.out = 80;
#else
  *params.out = TUNESMITH_SM;
#endif
})";
  const CompileRequest requests[] = {request(text, {7, 5, 0}), request(text, {8, 6, 0}), request(text, {9, 0, 'a'})};
  HostDevice device;
  const auto modules = device.load_all(HostCompiler().compile_many(requests));
  ASSERT_EQ(modules.size(), 3u);
  const int expected[] = {750, 80, 90};
  for (int i = 0; i < 3; ++i) {
    int out = 0;
    int* params = &out;
    device.prepare(*modules[i], launch_of("gate", {1}, {1}))->enqueue(&params, nullptr);
    EXPECT_EQ(out, expected[i]);
  }
}

TEST(HostExecutorDevice, MemoryAndFacts) {
  HostDevice device;
  EXPECT_EQ(device.info().kind, DeviceInfo::Kind::host);
  EXPECT_EQ(device.info().name, "host executor");
  EXPECT_EQ(name(device.info().arch), "sm_90a");
  EXPECT_EQ(device.info().smem_bytes_per_block, 227 << 10);
  EXPECT_GT(device.info().memory_bytes, 0);
  EXPECT_FALSE(device.provenance().at("cpu").empty());
  EXPECT_FALSE(device.is_capturing(nullptr));

  const std::string text = "some bytes";
  void* const memory = device.allocate(text.size());
  void* const other = device.allocate(text.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
  device.copy_to_device(memory, text.data(), text.size());
  device.copy_on_device(other, memory, text.size());
  device.fill(memory, '-', 4);
  std::string first(text.size(), 0), second(text.size(), 0);
  device.copy_to_host(first.data(), memory, first.size());
  device.copy_to_host(second.data(), other, second.size());
  EXPECT_EQ(first, "---- bytes");
  EXPECT_EQ(second, text);
  device.release(memory);
  device.release(other);

  const std::function<void(Stream)> work = [](Stream) {};
  try {
    device.time_us({&work, 1}, true);
    FAIL() << "the host executor must not claim a speed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  try {
    device.allocate(std::size_t{1} << 60);
    FAIL() << "an exbibyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos);
  }
#endif
}

// A load whose predicate is false does not access its address.
TEST(HostExecutorPlatform, PredicatedLoads) {
  struct Params {
    const std::uint32_t* in;
    std::uint32_t* out;
  };
  Kernels kernels(R"(
struct Params { const tunesmith::uint32* in; tunesmith::uint32* out; };
extern "C" __global__ void __launch_bounds__(32) pick(const __grid_constant__ Params params) {
  using namespace tunesmith;
  const int i = thread_index();
  const bool there = i % 2 == 0;
  const auto* const address = there ? params.in : nullptr;
  params.out[4 * i + 0] = load_if<2, LoadHint::plain>(there, address, Bits<2>{7}).word;
  params.out[4 * i + 1] = load_if<4, LoadHint::streaming>(there, address, Bits<4>{{8}}).word[0];
  params.out[4 * i + 2] = load_if<8, LoadHint::evict_last>(there, address, Bits<8>{{9, 10}}).word[1];
  params.out[4 * i + 3] = load_if<16, LoadHint::no_allocate>(there, address, Bits<16>{{11, 12, 13, 14}}).word[3];
})");
  alignas(16) const std::uint32_t in[4] = {0x10002, 3, 4, 5};
  std::vector<std::uint32_t> out(32 * 4, 0);
  kernels.run(launch_of("pick", {1}, {32}), Params{in, out.data()});
  for (std::size_t i = 0; i < 32; ++i) {
    const std::vector<std::uint32_t> found(out.begin() + static_cast<std::ptrdiff_t>(4 * i),
                                           out.begin() + static_cast<std::ptrdiff_t>(4 * i + 4));
    EXPECT_EQ(found,
              i % 2 == 0 ? (std::vector<std::uint32_t>{2, 0x10002, 3, 5}) : (std::vector<std::uint32_t>{7, 8, 10, 14}));
  }
}

}  // namespace
}  // namespace tunesmith
