// CudaDevice and NVRTC on a GPU. Every test is skipped, with the reason, without a driver, GPU or NVRTC.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "jit/cuda/context_scope.h"
#include "jit/cuda/module.h"
#include "templates/template_set.h"
#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tests/support/graph_calls.h"

namespace tunesmith {
namespace {

constexpr const char* source = R"(struct Params { float* x; long long n; float factor; int repeats; };
extern "C" __global__ void scale(const Params p) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (int r = 0; r < p.repeats; ++r)
    if (i < p.n) ((volatile float*)p.x)[i] = p.factor * ((volatile float*)p.x)[i];
}
extern "C" __global__ void dynamic_sum(const Params p) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) tile[i] = p.x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < p.n; ++i) sum += tile[i];
    p.x[0] = sum;
  }
}
extern "C" __global__ void fill_rank(const Params p) {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  if (threadIdx.x == 0) p.x[blockIdx.x] = (float)rank;
}
)";

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

struct Params {
  float* x = nullptr;
  long long n = 0;
  float factor = 1;
  int repeats = 1;
};

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = std::make_unique<CudaDevice>(0);
      module_ = device_->load(NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}})
                                  .compile({"gpu_test.cu", source, device_->info().arch}));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::no_device || error.code() == ErrorCode::no_compiler) GTEST_SKIP() << error.what();
      throw;
    }
  }
  void TearDown() override {
    module_.reset();
    device_.reset();
  }

  std::unique_ptr<PreparedKernel> prepare(const char* entry, std::uint32_t blocks, std::int64_t smem_bytes = 0,
                                          std::uint32_t cluster = 1) {
    KernelLaunch launch;
    launch.entry = entry;
    launch.grid.x = blocks;
    launch.block.x = 256;
    launch.cluster.x = cluster;
    launch.dynamic_smem_bytes = smem_bytes;
    return device_->prepare(*module_, launch);
  }
  float* upload(const std::vector<float>& values) {
    auto* const memory = static_cast<float*>(device_->allocate(values.size() * sizeof(float)));
    device_->copy_to_device(memory, values.data(), values.size() * sizeof(float));
    return memory;
  }
  std::vector<float> download(const float* memory, std::size_t count) {
    std::vector<float> values(count);
    device_->copy_to_host(values.data(), memory, count * sizeof(float));
    return values;
  }

  std::unique_ptr<CudaDevice> device_;
  std::shared_ptr<Module> module_;
};

TEST_F(CudaGpu, InfoIsPlausible) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.arch.number(), 75);
  EXPECT_GT(info.sm_count, 0);
  EXPECT_GE(info.smem_bytes_per_block, 48 << 10);
  EXPECT_GE(info.smem_bytes_per_sm, info.smem_bytes_per_block);
  EXPECT_GT(info.l2_bytes, 0);
  EXPECT_GT(info.memory_bytes, std::int64_t{1} << 30);
}

TEST_F(CudaGpu, ProvenanceNamesTheDriverAndIsCached) {
  const auto start = std::chrono::steady_clock::now();
  const auto facts = device_->provenance();
  const auto first = std::chrono::steady_clock::now();
  EXPECT_EQ(device_->provenance(), facts);
  const auto second = std::chrono::steady_clock::now();
  EXPECT_FALSE(facts.at("cuda_driver_api").empty());
  EXPECT_EQ(facts.at("device"), device_->info().name);
  const auto us = [](auto span) { return std::to_string(std::chrono::duration<double, std::micro>(span).count()); };
  RecordProperty("first_us", us(first - start));
  RecordProperty("second_us", us(second - first));
  EXPECT_LT(second - first, std::chrono::milliseconds(1));
}

TEST_F(CudaGpu, CopiesMemoryToAndFromTheDevice) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 1.f);
  float* const a = upload(values);
  float* const b = upload(std::vector<float>(1000, -1.f));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % 256, 0u);
  device_->copy_on_device(b, a, 4000);
  EXPECT_EQ(download(b, 1000), values);
  device_->fill(b, 0, 4000);
  device_->copy_async(b, a, 4000, nullptr);
  device_->synchronize(nullptr);
  EXPECT_EQ(download(b, 1000), values);
  device_->fill(reinterpret_cast<std::byte*>(b) + 1, 0xff, 6);
  std::vector<unsigned char> bytes(9);
  std::vector<unsigned char> expected(9, 0xff);
  device_->copy_to_host(bytes.data(), b, 9);
  std::memcpy(expected.data(), values.data(), 1);
  std::memcpy(expected.data() + 7, reinterpret_cast<const unsigned char*>(values.data()) + 7, 2);
  EXPECT_EQ(bytes, expected);
  device_->fill(b, 0, 4000);
  EXPECT_EQ(download(b, 1000), std::vector<float>(1000, 0.f));
  device_->release(a);
  device_->release(b);
}

TEST_F(CudaGpu, LaunchesAKernel) {
  std::vector<float> values(1000, 3.f);
  float* const x = upload(values);
  const Params params{x, 999, 2.f, 1};
  prepare("scale", 4)->enqueue(&params, nullptr);
  device_->synchronize(nullptr);
  values.assign(1000, 6.f);
  values.back() = 3.f;
  EXPECT_EQ(download(x, 1000), values);
  device_->release(x);
}

TEST_F(CudaGpu, LaunchesFromAThreadWithoutAContext) {
  float* const x = upload({1, 1, 1, 1});
  const auto kernel = prepare("scale", 1);
  const Params params{x, 4, 5.f, 1};
  std::jthread([&] { kernel->enqueue(&params, nullptr); }).join();
  EXPECT_EQ(download(x, 4), std::vector<float>(4, 5.f));
  device_->release(x);
}

TEST_F(CudaGpu, UsesTheMaximumOfSharedMemory) {
  const std::int64_t bytes = device_->info().smem_bytes_per_block;
  const auto count = static_cast<std::size_t>(bytes / 4);
  float* const x = upload(std::vector<float>(count, 1.f));
  const auto kernel = prepare("dynamic_sum", 1, bytes);
  prepare("dynamic_sum", 1, 1024);  // must not lower the limit
  const Params params{x, static_cast<long long>(count), 1, 1};
  kernel->enqueue(&params, nullptr);
  EXPECT_EQ(download(x, 1)[0], static_cast<float>(count));
  EXPECT_EQ(error_of([&] { prepare("dynamic_sum", 1, bytes + 1); }).code(), ErrorCode::unsupported);
  device_->release(x);
}

TEST_F(CudaGpu, BlocksOfAClusterHaveRanks) {
  if (device_->info().max_cluster_blocks < 8) GTEST_SKIP() << device_->info().name << " has no clusters";
  for (const std::uint32_t cluster : {2u, 8u, 16u}) {
    float* const x = upload(std::vector<float>(32, -1.f));
    KernelLaunch launch;
    launch.entry = "fill_rank";
    launch.grid.x = 32;
    launch.block.x = 256;
    launch.cluster.x = cluster;
    if (module_->occupancy(launch) > 0) {
      const Params params{x, 32, 1, 1};
      prepare("fill_rank", 32, 0, cluster)->enqueue(&params, nullptr);
      const std::vector<float> ranks = download(x, 32);
      for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(ranks[i], static_cast<float>(i % cluster)) << "cluster " << cluster;
    } else {
      EXPECT_GT(cluster, 8u) << "8 blocks are portable";
    }
    device_->release(x);
  }
}

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

TEST_F(CudaGpu, OccupancyDependsOnResources) {
  KernelLaunch launch;
  launch.entry = "dynamic_sum";
  launch.block.x = 1024;
  EXPECT_EQ(module_->occupancy(launch), device_->info().max_threads_per_sm / 1024);
  launch.dynamic_smem_bytes = device_->info().smem_bytes_per_block;
  EXPECT_EQ(module_->occupancy(launch), 1);
  launch.dynamic_smem_bytes += 1;
  EXPECT_EQ(module_->occupancy(launch), 0);
}

TEST_F(CudaGpu, TimesIncreaseWithTheWork) {
  constexpr std::size_t count = 1 << 20;
  float* const x = upload(std::vector<float>(count, 1.f));
  const auto kernel = prepare("scale", count / 256);
  const auto work = [&](int repeats) {
    return [&, repeats](Stream stream) {
      const Params params{x, count, 1.f, repeats};
      kernel->enqueue(&params, stream);
    };
  };
  const std::vector<std::function<void(Stream)>> works{work(1), work(1), work(20), work(400)};
  for (const bool flush : {false, true}) {
    const std::vector<double> times = device_->time_us(works, flush);
    ASSERT_EQ(times.size(), 4u);
    EXPECT_GT(times[1], 0);
    EXPECT_LT(times[1], times[2]);
    EXPECT_LT(4 * times[2], times[3]);
    EXPECT_LT(times[3], 1e6);
  }
  device_->release(x);
}

TEST_F(CudaGpu, LaunchesAreCapturedAndReplayed) {
  float* const x = upload({1, 1});
  const auto kernel = prepare("scale", 1);
  const GraphCalls calls(device_->driver());
  const Params params{x, 2, 3.f, 1};
  device_->time_us(std::vector<std::function<void(Stream)>>{[&](Stream stream) {
                     EXPECT_FALSE(device_->is_capturing(stream));
                     ASSERT_EQ(calls.begin_capture(stream, 0), 0);  // CU_STREAM_CAPTURE_MODE_GLOBAL
                     EXPECT_TRUE(device_->is_capturing(stream));
                     EXPECT_FALSE(device_->is_capturing(nullptr)) << "the stream does not synchronize with the default one";
                     kernel->enqueue(&params, stream);
                     // None of these calls may invalidate the capture, from this thread or another.
                     device_->release(device_->allocate(1 << 20));
                     std::jthread([&] {
                       float* const other = upload({7, 7});
                       device_->fill(other, 0, 8);
                       prepare("fill_rank", 1);
                       device_->release(other);
                     }).join();
                     GraphCalls::Handle graph = nullptr, exec = nullptr;
                     ASSERT_EQ(calls.end_capture(stream, &graph), 0);
                     EXPECT_FALSE(device_->is_capturing(stream));
                     EXPECT_EQ(download(x, 2), std::vector<float>(2, 1.f)) << "captured, not run";
                     ASSERT_EQ(calls.instantiate(&exec, graph, 0), 0);
                     EXPECT_EQ(calls.launch(exec, stream), 0);
                     EXPECT_EQ(calls.launch(exec, stream), 0);
                     device_->synchronize(stream);
                     EXPECT_EQ(download(x, 2), std::vector<float>(2, 9.f));
                     calls.exec_destroy(exec);
                     calls.destroy(graph);
                   }},
                   false);
  device_->release(x);
}

TEST_F(CudaGpu, InvalidImageIsAnError) {
  Binary bad;
  bad.image = std::string(1000, 'x');
  EXPECT_EQ(error_of([&] { device_->load(bad); }).code(), ErrorCode::device_failed);
  // A cubin for another architecture, which the driver rejects.
  const char* const other = device_->info().arch.major >= 9 ? "sm_75" : "sm_90";
  const Binary foreign = NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}})
                             .compile({"gpu_test.cu", source, parse_arch(other)});
  const Error error = error_of([&] {
    KernelLaunch launch;
    launch.entry = "scale";
    const auto module = device_->load(foreign);
    device_->prepare(*module, launch);
  });
  EXPECT_EQ(error.code(), ErrorCode::device_failed) << error.what();
}

TEST_F(CudaGpu, FailedAllocationReportsItsSize) {
  const std::size_t bytes = static_cast<std::size_t>(device_->info().memory_bytes) * 2;
  const Error error = error_of([&] { device_->release(device_->allocate(bytes)); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
  EXPECT_NO_THROW(device_->release(device_->allocate(1 << 20))) << "the device can be used afterwards";
}

// The benchmark checks the budget of 100 ns. Several times that would mean a look-up, a lock or a context switch.
TEST_F(CudaGpu, LaunchCostsLittleMoreThanTheDrivers) {
  const auto& module = dynamic_cast<const CudaModule&>(*module_);
  const ContextScope scope(*device_);
  KernelLaunch launch;
  launch.entry = "scale";
  launch.block.x = 32;
  const auto kernel = device_->prepare(*module_, launch);
  const cuda::FunctionHandle function = module.function(module.kernel_for(launch), launch);
  Params params;
  void* arguments[] = {&params};
  const Driver& driver = device_->driver();

  const auto ns_per_call = [&](const auto& call) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) call();
    const auto stop = std::chrono::steady_clock::now();
    driver.check(driver->stream_synchronize(nullptr), "cuStreamSynchronize");
    return std::chrono::duration<double, std::nano>(stop - start).count() / 200;
  };
  std::vector<double> ours, raw;
  for (int round = 0; round < 61; ++round) {
    raw.push_back(ns_per_call([&] { driver->launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr); }));
    ours.push_back(ns_per_call([&] { kernel->enqueue(&params, nullptr); }));
  }
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + 30, values.end());
    return values[30];
  };
  RecordProperty("raw_launch_ns", std::to_string(median(raw)));
  RecordProperty("enqueue_ns", std::to_string(median(ours)));
  EXPECT_LT(median(ours) - median(raw), 500);
}

}  // namespace
}  // namespace tunesmith
