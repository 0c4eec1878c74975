// The platform layer's exchanges between blocks, maxima and accesses on a GPU. Every test is skipped, with the reason,
// without a driver, GPU or NVRTC.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "templates/template_set.h"
#include "tests/jit/cuda/device_gpu_fixture.h"

namespace tunesmith {
namespace {

// The platform's functions for cooperative grids and clusters, and accesses and maxima whose PTX no other kernel uses.
constexpr const char* platform_source = R"(
using namespace tunesmith;
struct ExchangeParams { uint64* words; uint32* out; int blocks, rounds; };
// Values rotate through the whole grid. Two sets of words alternate; tags continue from launch to launch.
extern "C" __global__ void __launch_bounds__(128) exchange(const __grid_constant__ ExchangeParams p) {
  TUNESMITH_SHARED(uint32, partials, 4);
  const int block = static_cast<int>(block_index());
  const uint32 even = tag_of(p.words + block), odd = tag_of(p.words + p.blocks + block);
  uint32 tag = even > odd ? even : odd;
  sync_block();
  uint32 value = static_cast<uint32>(block) + 1;
  for (int round = 0; round < p.rounds; ++round) {
    uint64* const set = p.words + (++tag & 1u) * p.blocks;
    if (thread_index() == 0) publish(set + block, tag, value);
    uint32 sum = 0;
    for (int other = thread_index(); other < p.blocks; other += 128) sum += await(set + other, tag);
    for (int distance = 16; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
    if (lane_index() == 0) partials[warp_index()] = sum;
    sync_block();
    value = value * 3 + partials[0] + partials[1] + partials[2] + partials[3];
    sync_block();
  }
  if (thread_index() == 0) p.out[block] = value;
}
#if TUNESMITH_SM >= 900
extern "C" __global__ void cluster_halves(const __grid_constant__ ExchangeParams p) {
  TUNESMITH_SHARED(uint32, inbox, 128);
  cluster_arrive();
  const int next = (cluster_rank() + 1) % cluster_size();
  cluster_wait();
  *shared_of_rank(inbox + thread_index(), next) = static_cast<uint32>(block_index()) * 1000 + thread_index();
  cluster_arrive();
  cluster_wait();
  p.out[block_index() * 128 + thread_index()] = inbox[thread_index()];
}
#endif
struct PairParams { const uint32* a; const uint32* b; uint32* out; int count; };
template <typename T>
__device__ __forceinline__ void pair_maxima(const PairParams& p, uint32* out) {
  for (int i = thread_index(); i < p.count; i += 128) out[i] = maximum_or_nan_pair<T>(p.a[i], p.b[i]);
}
extern "C" __global__ void maxima(const __grid_constant__ PairParams p) {
  pair_maxima<f16>(p, p.out);
  pair_maxima<bf16>(p, p.out + p.count);
  for (int i = thread_index(); i < p.count; i += 128)
    p.out[2 * p.count + i] = bits_of(maximum_or_nan(float_of(p.a[i]), float_of(p.b[i])));
}
struct ByteParams { const unsigned char* in; unsigned char* out; };
template <LoadHint load_hint, StoreHint store_hint>
__device__ __forceinline__ void copy_byte(const ByteParams& p, int at) {
  store<1, store_hint>(p.out + at, load<1, load_hint>(p.in + at));
}
extern "C" __global__ void bytes(const __grid_constant__ ByteParams p) {
  const int at = thread_index() * 5;
  copy_byte<LoadHint::plain, StoreHint::plain>(p, at);
  copy_byte<LoadHint::no_allocate, StoreHint::streaming>(p, at + 1);
  copy_byte<LoadHint::streaming, StoreHint::plain>(p, at + 2);
#if TUNESMITH_SM >= 800
  copy_byte<LoadHint::evict_first, StoreHint::evict_first>(p, at + 3);
  copy_byte<LoadHint::evict_last, StoreHint::plain>(p, at + 4);
#endif
}
)";

/// Prepends the platform's headers to `text`, from the templates that are embedded in the program.
std::string with_platform(const std::string& text) { return TemplateSet::embedded().flatten("device/platform.cuh") + text; }

class CudaGpuPlatform : public CudaGpu {
 protected:
  void SetUp() override {
    const std::string whole = with_platform(platform_source);  // first: a missing template fails without a GPU too
    CudaGpu::SetUp();
    if (device_ == nullptr || module_ == nullptr) return;
    module_ = device_->load(NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}})
                                .compile({"platform_test.cu", whole, device_->info().arch}));
  }
  template <typename T>
  T* upload(const std::vector<T>& values) {
    auto* const memory = static_cast<T*>(device_->allocate(values.size() * sizeof(T)));
    device_->copy_to_device(memory, values.data(), values.size() * sizeof(T));
    memory_.push_back(memory);
    return memory;
  }
  template <typename T>
  std::vector<T> download(const T* memory, std::size_t count) {
    std::vector<T> values(count);
    device_->copy_to_host(values.data(), memory, count * sizeof(T));
    return values;
  }
  template <typename Parameters>
  void run(const KernelLaunch& launch, const Parameters& params) {
    device_->prepare(*module_, launch)->enqueue(&params, nullptr);
    device_->synchronize(nullptr);
  }
  static KernelLaunch launch_of(const char* entry, std::uint32_t blocks) {
    KernelLaunch launch;
    launch.entry = entry;
    launch.grid.x = blocks;
    launch.block.x = 128;
    return launch;
  }
  void TearDown() override {
    for (void* const memory : memory_) device_->release(memory);
    CudaGpu::TearDown();
  }

  std::vector<void*> memory_;
};

struct ExchangeParams {
  std::uint64_t* words;
  std::uint32_t* out;
  int blocks, rounds;
};

TEST_F(CudaGpuPlatform, BlocksOfACooperativeGridExchangeValues) {
  constexpr int rounds = 101;  // odd, so that each launch starts with the other set of words
  const auto sms = static_cast<std::uint32_t>(device_->info().sm_count);
  for (const std::uint32_t blocks : {2u, 3u, sms, 2 * sms}) {
    std::vector<std::uint32_t> expected(blocks);
    std::iota(expected.begin(), expected.end(), 1u);
    for (int round = 0; round < rounds; ++round) {
      const std::uint32_t sum = std::accumulate(expected.begin(), expected.end(), 0u);
      for (std::uint32_t& value : expected) value = value * 3 + sum;
    }
    std::uint64_t* const words = upload(std::vector<std::uint64_t>(std::size_t{2} * blocks));
    std::uint32_t* const out = upload(std::vector<std::uint32_t>(blocks));
    KernelLaunch launch = launch_of("exchange", blocks);
    launch.cooperative = true;
    for (std::uint32_t again = 1; again <= 3; ++again) {
      device_->fill(out, 0, blocks * sizeof(std::uint32_t));
      run(launch, ExchangeParams{words, out, static_cast<int>(blocks), rounds});
      EXPECT_EQ(download(out, blocks), expected) << blocks << " blocks, launch " << again;
      const std::size_t last_set = again * rounds % 2 * blocks;
      for (const std::uint64_t word : download(words + last_set, blocks)) EXPECT_EQ(word >> 32, again * rounds);
    }
  }
}

TEST_F(CudaGpuPlatform, ClusterArriveAndWait) {
  if (device_->info().max_cluster_blocks < 8) GTEST_SKIP() << device_->info().name << " has no clusters";
  constexpr std::uint32_t blocks = 1024;
  std::uint32_t* const out = upload(std::vector<std::uint32_t>(blocks * 128));
  for (const std::uint32_t size : {2u, 8u}) {
    KernelLaunch launch = launch_of("cluster_halves", blocks);
    launch.cluster.x = size;
    run(launch, ExchangeParams{nullptr, out, 0, 0});
    std::vector<std::uint32_t> expected;
    for (std::uint32_t block = 0; block < blocks; ++block)
      for (std::uint32_t i = 0; i < 128; ++i)
        expected.push_back((block / size * size + (block + size - 1) % size) * 1000 + i);
    EXPECT_EQ(download(out, expected.size()), expected) << "clusters of " << size;
  }
}

// Computes max.NaN of one element: +0 is larger than -0, and NaN wins. Elements of the same sign are ordered like their bits
// if positive, and in reverse if negative.
std::uint32_t larger_or_nan(std::uint32_t a, std::uint32_t b, std::uint32_t infinity, std::uint32_t sign,
                            std::uint32_t nan) {
  if ((a & ~sign) > infinity || (b & ~sign) > infinity) return nan;
  if ((a & sign) != (b & sign)) return (a & sign) == 0 ? a : b;
  return (a & sign) == 0 ? std::max(a, b) : std::min(a, b);
}

TEST_F(CudaGpuPlatform, MaximaOfEdgeCasePairs) {
  struct PairParams {
    const std::uint32_t* a;
    const std::uint32_t* b;
    std::uint32_t* out;
    int count;
  };
  std::vector<std::uint32_t> elements;  // of f16 and bf16: zero, denormal, normal, infinity, NaN
  for (const std::uint32_t each : {0u, 1u, 0x80u, 0x3c00u, 0x3f80u, 0x7bffu, 0x7c00u, 0x7c01u, 0x7f80u, 0x7f81u, 0x7fffu}) {
    elements.push_back(each);
    elements.push_back(each | 0x8000u);
  }
  std::vector<std::uint32_t> a, b;
  const std::size_t count = elements.size() * elements.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t j = (i * 5 + 7) % count;
    a.push_back(elements[i / elements.size()] | elements[j / elements.size()] << 16);
    b.push_back(elements[i % elements.size()] | elements[j % elements.size()] << 16);
  }
  std::uint32_t* const out = upload(std::vector<std::uint32_t>(3 * count));
  run(launch_of("maxima", 1), PairParams{upload(a), upload(b), out, static_cast<int>(count)});
  const std::vector<std::uint32_t> larger = download(out, 3 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto pair = [&](std::uint32_t infinity) {
      return larger_or_nan(a[i] & 0xffffu, b[i] & 0xffffu, infinity, 0x8000u, 0x7fffu) |
             larger_or_nan(a[i] >> 16, b[i] >> 16, infinity, 0x8000u, 0x7fffu) << 16;
    };
    EXPECT_EQ(larger[i], pair(0x7c00u)) << "f16 " << a[i] << " and " << b[i];
    EXPECT_EQ(larger[count + i], pair(0x7f80u)) << "bf16 " << a[i] << " and " << b[i];
    EXPECT_EQ(larger[2 * count + i], larger_or_nan(a[i], b[i], 0x7f800000u, 0x80000000u, 0x7fffffffu))
        << "float " << a[i] << " and " << b[i];
  }
}

TEST_F(CudaGpuPlatform, LoadsAndStoresSingleBytesWithEveryHint) {
  struct ByteParams {
    const unsigned char* in;
    unsigned char* out;
  };
  std::vector<unsigned char> in(128 * 5);
  std::iota(in.begin(), in.end(), static_cast<unsigned char>(1));
  unsigned char* const out = upload(std::vector<unsigned char>(in.size(), 0xaa));
  run(launch_of("bytes", 1), ByteParams{upload(in), out});
  if (device_->info().arch.number() < 80)
    for (std::size_t i = 0; i < in.size(); ++i)
      if (i % 5 >= 3) in[i] = 0xaa;
  EXPECT_EQ(download(out, in.size()), in);
}

}  // namespace
}  // namespace tunesmith
