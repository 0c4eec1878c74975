// CudaDevice and NVRTC on a GPU. Every test is skipped, with the reason, without a driver, GPU or NVRTC.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

#include "jit/cuda/context_scope.h"
#include "jit/cuda/module.h"
#include "tests/jit/cuda/device_gpu_fixture.h"
#include "tests/support/graph_calls.h"

namespace tunesmith {
namespace {

TEST_F(CudaGpu, InfoIsPlausible) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.arch.number(), 75);
  EXPECT_GT(info.sm_count, 0);
  EXPECT_GE(info.smem_bytes_per_block, 48 << 10);
  EXPECT_GE(info.smem_bytes_per_sm, info.smem_bytes_per_block);
  EXPECT_GT(info.l2_bytes, 0);
  EXPECT_GT(info.memory_gb_per_s, 100);
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
  const DeviceParams params{x, 999, 2.f, 1};
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
  const DeviceParams params{x, 4, 5.f, 1};
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
  const DeviceParams params{x, static_cast<long long>(count), 1, 1};
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
      const DeviceParams params{x, 32, 1, 1};
      prepare("fill_rank", 32, 0, cluster)->enqueue(&params, nullptr);
      const std::vector<float> ranks = download(x, 32);
      for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(ranks[i], static_cast<float>(i % cluster)) << "cluster " << cluster;
    } else {
      EXPECT_GT(cluster, 8u) << "8 blocks are portable";
    }
    device_->release(x);
  }
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
      const DeviceParams params{x, count, 1.f, repeats};
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

TEST_F(CudaGpu, FlushEvictsLinesThatAnEarlierCallKept) {
  if (device_->info().arch.number() < 80) GTEST_SKIP() << "eviction policies need sm_80";
  const auto count = static_cast<std::size_t>(device_->info().l2_bytes) / 3 / sizeof(float);
  float* const kept = upload(std::vector<float>(count, 1.f));
  float* const other = upload(std::vector<float>(count, 1.f));
  const auto blocks = static_cast<std::uint32_t>((count + 255) / 256);
  const auto load = prepare("load_once", blocks);
  const auto keep = prepare("load_evict_last", blocks);
  const auto work = [&](const PreparedKernel& kernel, float* x) {
    return [&kernel, x, count](Stream stream) {
      const DeviceParams params{x, static_cast<long long>(count), 2.f, 1};
      kernel.enqueue(&params, stream);
    };
  };
  std::vector<double> of_kept, of_other;
  for (int round = 0; round < 21; ++round) {
    device_->time_us(std::vector<std::function<void(Stream)>>{work(*keep, kept)}, true);
    const std::vector<double> times =
        device_->time_us(std::vector<std::function<void(Stream)>>{work(*load, kept), work(*load, other)}, true);
    of_kept.push_back(times.at(0));
    of_other.push_back(times.at(1));
  }
  std::ranges::nth_element(of_kept, of_kept.begin() + 10);
  std::ranges::nth_element(of_other, of_other.begin() + 10);
  // Lines that stay take a seventh off the time of an H100.
  EXPECT_NEAR(of_kept[10] / of_other[10], 1, 0.05);
  device_->release(kept);
  device_->release(other);
}

TEST_F(CudaGpu, LaunchesAreCapturedAndReplayed) {
  float* const x = upload({1, 1});
  const auto kernel = prepare("scale", 1);
  const GraphCalls calls(device_->driver());
  const DeviceParams params{x, 2, 3.f, 1};
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
                             .compile({"gpu_test.cu", device_source, parse_arch(other)});
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
  DeviceParams params;
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
