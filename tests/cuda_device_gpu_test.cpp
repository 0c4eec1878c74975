// CudaDevice and NVRTC together on a real GPU. Every test skips, with the reason, where there is no driver, GPU or NVRTC.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "jit/cuda/context_scope.h"
#include "jit/cuda/cuda_module.h"
#include "tests/nvrtc_fixture.h"

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

struct Params {
  float* x = nullptr;
  long long n = 0;
  float factor = 1;
  int repeats = 1;
};

// The driver's calls that only an application makes.
struct GraphCalls {
  using Handle = void*;
  explicit GraphCalls(const Driver& driver) {
    void* const library = dlopen(driver.path().c_str(), RTLD_NOW);
    const auto resolve = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      ASSERT_NE(function, nullptr) << name;
    };
    resolve(begin_capture, "cuStreamBeginCapture_v2");
    resolve(end_capture, "cuStreamEndCapture");
    resolve(instantiate, "cuGraphInstantiateWithFlags");
    resolve(launch, "cuGraphLaunch");
    resolve(exec_destroy, "cuGraphExecDestroy");
    resolve(destroy, "cuGraphDestroy");
  }
  int (*begin_capture)(Handle stream, int mode) = nullptr;
  int (*end_capture)(Handle stream, Handle* graph) = nullptr;
  int (*instantiate)(Handle* exec, Handle graph, unsigned long long flags) = nullptr;
  int (*launch)(Handle exec, Handle stream) = nullptr;
  int (*exec_destroy)(Handle exec) = nullptr;
  int (*destroy)(Handle graph) = nullptr;
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

TEST_F(CudaGpu, ProvenanceNamesTheDriverAndIsRememberedCheaply) {
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

TEST_F(CudaGpu, MemoryKeepsWhatIsWritten) {
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

TEST_F(CudaGpu, AllTheSharedMemoryCanBeUsed) {
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

TEST_F(CudaGpu, ClustersKnowTheirRanks) {
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

TEST_F(CudaGpu, OccupancyFollowsTheResources) {
  KernelLaunch launch;
  launch.entry = "dynamic_sum";
  launch.block.x = 1024;
  EXPECT_EQ(module_->occupancy(launch), device_->info().max_threads_per_sm / 1024);
  launch.dynamic_smem_bytes = device_->info().smem_bytes_per_block;
  EXPECT_EQ(module_->occupancy(launch), 1);
  launch.dynamic_smem_bytes += 1;
  EXPECT_EQ(module_->occupancy(launch), 0);
}

TEST_F(CudaGpu, TimesGrowWithTheWork) {
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
                     // Nothing of this may break the capture, from this thread or another.
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

TEST_F(CudaGpu, ABadImageIsAnError) {
  Binary bad;
  bad.image = std::string(1000, 'x');
  EXPECT_EQ(error_of([&] { device_->load(bad); }).code(), ErrorCode::device_failed);
  // A cubin for another architecture, which the driver itself refuses.
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

TEST_F(CudaGpu, TooMuchMemoryIsAnErrorWithItsSize) {
  const std::size_t bytes = static_cast<std::size_t>(device_->info().memory_bytes) * 2;
  const Error error = error_of([&] { device_->release(device_->allocate(bytes)); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
  EXPECT_NO_THROW(device_->release(device_->allocate(1 << 20))) << "the device can be used afterwards";
}

// The budget is 100 ns and the benchmark's business; several times that would mean a look-up, a lock or a context switch.
TEST_F(CudaGpu, ALaunchCostsLittleMoreThanTheDrivers) {
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
