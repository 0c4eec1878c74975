// CudaDevice with the scripted driver: contexts, attributes, launches, errors, memory, captures.

#include <gtest/gtest.h>

#include "tests/jit/cuda/device_fixture.h"

namespace tunesmith {
namespace {

std::string message(const Error& error) { return error.what(); }

TEST_F(CudaDeviceTest, ResolvesTheDriverByInterfaceVersionOrExportedName) {
  device();
  EXPECT_EQ(fake_->count("cuGetProcAddress cuMemAlloc 3020"), 1);
  fake_->has_proc_address = false;
  EXPECT_NO_THROW(Driver::open(FAKE_LIBCUDA));
}

TEST_F(CudaDeviceTest, MissingDriverListsThePlacesTried) {
  const Error missing = error_of([&] { Driver::open(folder_.path() / "libcuda.so.1"); });
  EXPECT_EQ(missing.code(), ErrorCode::no_device);
  EXPECT_NE(message(missing).find((folder_.path() / "libcuda.so.1").string()), std::string::npos) << missing.what();
}

TEST_F(CudaDeviceTest, OldDriverIsReportedWithTheMissingFunction) {
  const Error old = error_of([] { Driver::open(FAKE_LIBCUDA_OLD); });
  EXPECT_EQ(old.code(), ErrorCode::no_device);
  EXPECT_NE(message(old).find("lacks cuLibraryLoadData"), std::string::npos) << old.what();
  EXPECT_NE(message(old).find("12.0"), std::string::npos) << old.what();
}

TEST_F(CudaDeviceTest, WithoutAGpuThrowsNoDevice) {
  fake_->device_count = 0;
  EXPECT_EQ(error_of([&] { device(); }).code(), ErrorCode::no_device);
  fail("cuInit", cuda::error_no_device);
  const Error error = error_of([&] { device(); });
  EXPECT_EQ(error.code(), ErrorCode::no_device);
  EXPECT_NE(message(error).find("cuInit"), std::string::npos) << error.what();
}

TEST_F(CudaDeviceTest, InvalidOrdinalIsReportedWithTheNumberOfGpus) {
  fake_->device_count = 2;
  ordinal_ = 2;
  const Error error = error_of([&] { device(); });
  EXPECT_EQ(error.code(), ErrorCode::no_device);
  EXPECT_EQ(message(error), "device is cuda:2; this machine has 2 GPUs: cuda:0 to cuda:1");
}

TEST_F(CudaDeviceTest, FillsInDeviceInfo) {
  const DeviceInfo& info = device().info();
  EXPECT_EQ(info.kind, DeviceInfo::Kind::cuda);
  EXPECT_EQ(info.name, "NVIDIA Fake");
  EXPECT_EQ(name(info.arch), "sm_90a");
  EXPECT_EQ(info.sm_count, 132);
  EXPECT_EQ(info.max_threads_per_block, 1024);
  EXPECT_EQ(info.max_threads_per_sm, 2048);
  EXPECT_EQ(info.registers_per_sm, 65536);
  EXPECT_EQ(info.smem_bytes_per_block, 232448);
  EXPECT_EQ(info.smem_bytes_per_sm, 233472);
  EXPECT_EQ(info.l2_bytes, 50 << 20);
  EXPECT_NEAR(info.memory_gb_per_s, 4917, 1);
  EXPECT_EQ(info.memory_bytes, std::int64_t{141} << 30);
  EXPECT_EQ(info.max_cluster_blocks, 8);
  EXPECT_FALSE(info.mig);
  EXPECT_EQ(device().uuid(), "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae00");
  EXPECT_EQ(fake_->primary_references, 0) << "DeviceInfo needs no context";
}

TEST_F(CudaDeviceTest, OlderGpuHasNoClusters) {
  fake_->major = 8;
  EXPECT_EQ(device().info().max_cluster_blocks, 1);
  KernelLaunch launch = scale();
  launch.cluster = {2, 1, 1};
  const auto module = device().load(binary());
  EXPECT_EQ(error_of([&] { device().prepare(*module, launch); }).code(), ErrorCode::unsupported);
}

TEST_F(CudaDeviceTest, RecognizesAMigInstanceByItsName) {
  fake_->name = "NVIDIA H200 MIG 1g.18gb";
  EXPECT_TRUE(device().info().mig);
  EXPECT_EQ(device().info().partition, "1g.18gb");
  EXPECT_TRUE(device().uuid().starts_with("MIG-"));
}

TEST_F(CudaDeviceTest, ProvenanceHasDriverClocksAndDevice) {
  const auto facts = device().provenance();
  EXPECT_EQ(facts.at("cuda_driver_api"), "13.0");
  EXPECT_EQ(facts.at("sm_clock_khz"), "1980000");
  EXPECT_EQ(facts.at("memory_clock_khz"), "3201000");
  EXPECT_EQ(facts.at("device_uuid"), device().uuid());
}

TEST_F(CudaDeviceTest, UsesAndReleasesThePrimaryContextIfNoneIsCurrent) {
  device().release(device().allocate(100));
  EXPECT_EQ(fake_->primary_references, 1) << "retained once";
  EXPECT_EQ(fake_->count("cuCtxPushCurrent 0x1000"), 2);
  EXPECT_EQ(fake_->allocations, 0);
  device_.reset();
  EXPECT_EQ(fake_->primary_references, 0);
}

TEST_F(CudaDeviceTest, UsesTheCurrentContextOfTheDevice) {
  const CurrentContext application(push_, pop_, application_context(0));
  fake_->calls.clear();
  device().allocate(100);
  EXPECT_EQ(fake_->primary_references, 0);
  EXPECT_EQ(fake_->count("cuCtxPushCurrent"), 0);
}

TEST_F(CudaDeviceTest, DoesNotUseTheCurrentContextOfAnotherDevice) {
  fake_->device_count = 2;
  const CurrentContext application(push_, pop_, application_context(1));
  device().allocate(100);
  EXPECT_EQ(fake_->count("cuCtxPushCurrent 0x1000"), 1);
  EXPECT_EQ(fake_->count("cuCtxPopCurrent"), 1);
}

TEST_F(CudaDeviceTest, LaunchPassesGeometryAndParameters) {
  const auto module = device().load(binary());
  KernelLaunch launch = scale(7, 100);
  launch.grid.y = 3;
  launch.block = {32, 4, 2};
  const auto kernel = device().prepare(*module, launch);
  EXPECT_EQ(fake_->count("cuFuncGetAttribute"), 1) << "loading is lazy; prepare must force it";
  std::memcpy(params_, "sixteen bytes...", 16);
  kernel->enqueue(params_, reinterpret_cast<Stream>(0x77));
  EXPECT_EQ(last_launch(), "cuLaunchKernel scale 7x3x1 32x4x2 smem=100 stream=0x77 context=0x1000");
  EXPECT_EQ(fake_->last_params, "sixteen bytes...");
}

TEST_F(CudaDeviceTest, LaunchInItsContextNeedsOneQuery) {
  const CurrentContext application(push_, pop_, application_context(0));
  const auto module = device().load(binary());
  const auto kernel = device().prepare(*module, scale());
  fake_->calls.clear();
  kernel->enqueue(params_, nullptr);
  ASSERT_EQ(fake_->calls.size(), 2u);
  EXPECT_EQ(fake_->calls[0], "cuCtxGetCurrent");
  EXPECT_TRUE(fake_->calls[1].starts_with("cuLaunchKernel scale"));
}

TEST_F(CudaDeviceTest, LaunchFromAThreadWithAnotherDevicesContextUsesThisDevice) {
  fake_->device_count = 2;
  const auto module = device().load(binary());
  const auto kernel = device().prepare(*module, scale());
  {
    const CurrentContext other_device(push_, pop_, application_context(1));
    kernel->enqueue(params_, nullptr);
    EXPECT_TRUE(last_launch().ends_with("context=0x1000")) << last_launch();
  }
  const CurrentContext other_context(push_, pop_, application_context(0));
  kernel->enqueue(params_, nullptr);
  EXPECT_TRUE(last_launch().ends_with("by-kernel context=0x2000")) << last_launch();
}

TEST_F(CudaDeviceTest, RaisesTheSharedMemoryLimitOnceAndNeverLowersIt) {
  const auto module = device().load(binary());
  const auto set = [&] { return fake_->count("cuKernelSetAttribute"); };
  device().prepare(*module, scale(1, 1000));
  EXPECT_EQ(set(), 0) << "within the default limit";
  device().prepare(*module, scale(1, 100000));
  EXPECT_EQ(set(), 1);
  device().prepare(*module, scale(1, 60000));
  device().prepare(*module, scale(1, 100000));
  EXPECT_EQ(set(), 1);
  EXPECT_EQ(fake_->max_dynamic.at("scale"), 100000);
  device().prepare(*module, scale(1, 200000));
  EXPECT_EQ(fake_->max_dynamic.at("scale"), 200000);
  EXPECT_EQ(fake_->count("cuKernelSetAttribute scale 8=200000"), 1);
  EXPECT_EQ(module->occupancy(scale(1, 100000)), 2);
  EXPECT_EQ(fake_->max_dynamic.at("scale"), 200000);
}

TEST_F(CudaDeviceTest, ClustersAndCooperativeGridsAreLaunchAttributes) {
  const auto module = device().load(binary());
  KernelLaunch launch = scale(16);
  launch.cluster = {8, 1, 1};
  launch.cooperative = true;
  device().prepare(*module, launch)->enqueue(params_, nullptr);
  EXPECT_EQ(last_launch(),
            "cuLaunchKernelEx scale 16x1x1 128x1x1 smem=0 stream=0x0 cluster 8x1x1 cooperative=1 context=0x1000");
  EXPECT_EQ(fake_->count("cuKernelSetAttribute"), 0) << "8 blocks are portable";
  launch.cooperative = false;
  launch.cluster = {16, 1, 1};
  device().prepare(*module, launch);
  device().prepare(*module, launch);
  EXPECT_EQ(fake_->count("cuKernelSetAttribute scale 14=1"), 1);
}

TEST_F(CudaDeviceTest, PrepareRejectsImpossibleLaunches) {
  const auto module = device().load(binary());
  const auto rejected = [&](const KernelLaunch& launch) { return error_of([&] { device().prepare(*module, launch); }); };
  KernelLaunch launch = scale();
  launch.block = {513, 1, 1};
  EXPECT_EQ(rejected(launch).code(), ErrorCode::unsupported);
  EXPECT_NE(message(rejected(launch)).find("at most 512 threads"), std::string::npos);
  EXPECT_EQ(rejected(scale(1, 232448)).code(), ErrorCode::unsupported) << "1024 bytes are static";
  EXPECT_EQ(rejected(scale(1, -1)).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(rejected(scale(0)).code(), ErrorCode::invalid_argument);
  launch = scale(132 * 16 + 1);
  launch.cooperative = true;
  EXPECT_EQ(rejected(launch).code(), ErrorCode::unsupported);
  EXPECT_NE(message(rejected(launch)).find("at most 2112 blocks"), std::string::npos) << rejected(launch).what();
  launch = scale();
  launch.entry = "absent";
  EXPECT_EQ(rejected(launch).code(), ErrorCode::not_found);
  EXPECT_NE(message(rejected(launch)).find("'absent'"), std::string::npos);
}

TEST_F(CudaDeviceTest, OccupancyIsBlocksPerMultiprocessor) {
  const auto module = device().load(binary());
  EXPECT_EQ(module->occupancy(scale()), 16);
  EXPECT_EQ(module->occupancy(scale(1, 100000)), 2);
  EXPECT_EQ(module->occupancy(scale(1, 232448)), 0) << "cannot run";
  KernelLaunch cluster = scale(16);
  cluster.cluster = {8, 1, 1};
  fake_->active_clusters = 66;
  EXPECT_EQ(module->occupancy(cluster), 4) << "66 clusters of 8 on 132 multiprocessors";
  fake_->active_clusters = 3;
  EXPECT_EQ(module->occupancy(cluster), 1);
  fake_->active_clusters = 0;
  EXPECT_EQ(module->occupancy(cluster), 0);
  fail("cuOccupancyMaxActiveBlocksPerMultiprocessor", cuda::error_launch_failed);
  EXPECT_EQ(error_of([&] { module->occupancy(scale()); }).code(), ErrorCode::device_failed);
}

TEST_F(CudaDeviceTest, UnloadsModules) {
  auto module = device().load(binary());
  EXPECT_EQ(fake_->libraries, 1);
  module.reset();
  EXPECT_EQ(fake_->libraries, 0);
}

TEST_F(CudaDeviceTest, RejectsAnInvalidImage) {
  Binary bad;
  bad.image = "not a cubin";
  EXPECT_EQ(error_of([&] { device().load(bad); }).code(), ErrorCode::device_failed);
  EXPECT_EQ(fake_->count("cuLibraryLoadData"), 0);
  fail("cuLibraryLoadData", cuda::error_no_binary_for_gpu);
  const Error error = error_of([&] { device().load(binary()); });
  EXPECT_EQ(error.code(), ErrorCode::device_failed);
  for (const char* fact : {"cuLibraryLoadData", "sm_90a", "CUDA 13.0", "128 bytes"})
    EXPECT_NE(message(error).find(fact), std::string::npos) << fact << " in " << error.what();
}

TEST_F(CudaDeviceTest, ErrorsNameTheCallAndItsPurpose) {
  const auto module = device().load(binary());
  const auto kernel = device().prepare(*module, scale(3, 64));
  fail("cuLaunchKernel", cuda::error_launch_out_of_resources);
  const Error launch = error_of([&] { kernel->enqueue(params_, nullptr); });
  EXPECT_EQ(launch.code(), ErrorCode::device_failed);
  EXPECT_EQ(message(launch),
            "cuLaunchKernel: CUDA_ERROR_SCRIPTED (as the script says) while launching scale with grid 3x1x1, block 128x1x1, "
            "64 bytes of dynamic shared memory");
  fail("cuMemAlloc", cuda::error_out_of_memory);
  const Error memory = error_of([&] { device().allocate(123456); });
  EXPECT_EQ(memory.code(), ErrorCode::out_of_memory);
  EXPECT_NE(message(memory).find("allocating 123456 bytes on cuda:0"), std::string::npos) << memory.what();
  fail("cuStreamSynchronize", cuda::error_illegal_address);
  const Error fault = error_of([&] { device().synchronize(nullptr); });
  EXPECT_EQ(fault.code(), ErrorCode::device_failed);
  EXPECT_NE(message(fault).find("can no longer use its CUDA context"), std::string::npos) << fault.what();
  fail("cuStreamSynchronize", 12345);
  EXPECT_NE(message(error_of([&] { device().synchronize(nullptr); })).find("CUDA error 12345"), std::string::npos);
  fail("cuStreamSynchronize", cuda::error_stream_capture_unsupported);
  EXPECT_EQ(error_of([&] { device().synchronize(nullptr); }).code(), ErrorCode::capturing);
}

TEST_F(CudaDeviceTest, CopiesAndFillsAreSynchronous) {
  std::byte host[8];
  void* const memory = device().allocate(8);
  device().copy_to_device(memory, host, 8);
  device().copy_to_host(host, memory, 8);
  device().copy_on_device(memory, memory, 8);
  device().fill(memory, 0xab, 8);
  EXPECT_EQ(fake_->count("cuMemsetD32Async " + std::to_string(0xabababab) + " 2"), 1);
  device().fill(memory, 0xab, 7);
  EXPECT_EQ(fake_->count("cuMemsetD8Async 171 7"), 1);
  EXPECT_EQ(fake_->count("cuStreamSynchronize stream=0x0"), 5);
  device().copy_async(memory, memory, 8, reinterpret_cast<Stream>(0x77));
  EXPECT_EQ(fake_->count("cuMemcpyDtoDAsync stream=0x77"), 1);
  EXPECT_EQ(fake_->count("cuStreamSynchronize"), 5) << "asynchronous, on the requested stream";
  device().copy_to_host(nullptr, nullptr, 0);
  device().fill(nullptr, 0, 0);
  EXPECT_EQ(fake_->count("cuStreamSynchronize"), 5) << "zero bytes need no call";
  device().release(nullptr);
  device().release(memory);
  EXPECT_EQ(fake_->allocations, 0);
  EXPECT_NE(device().allocate(0), nullptr);
}

TEST_F(CudaDeviceTest, CopiesAvoidTheDefaultStreamDuringACapture) {
  std::byte host[8];
  void* const memory = device().allocate(8);
  fake_->blocking_capture = true;
  device().copy_to_device(memory, host, 8);
  EXPECT_EQ(fake_->count("cuStreamCreate 1"), 1);
  EXPECT_EQ(fake_->count("cuStreamSynchronize stream=0x0"), 0);
  EXPECT_EQ(fake_->streams, 0);
  fail("cuMemcpyHtoDAsync", cuda::error_invalid_value);
  EXPECT_EQ(error_of([&] { device().copy_to_device(memory, host, 8); }).code(), ErrorCode::device_failed);
  EXPECT_EQ(fake_->streams, 0);
}

TEST_F(CudaDeviceTest, DetectsCaptures) {
  const Stream stream = reinterpret_cast<Stream>(0x5005);
  EXPECT_FALSE(device().is_capturing(stream));
  EXPECT_FALSE(device().is_capturing(nullptr));
  fake_->capturing_stream = reinterpret_cast<cuda::StreamHandle>(0x5005);
  EXPECT_TRUE(device().is_capturing(stream));
  EXPECT_FALSE(device().is_capturing(nullptr));
  fake_->blocking_capture = true;
  EXPECT_TRUE(device().is_capturing(nullptr)) << "the default stream would join the capture";
  fake_->blocking_capture = false;
  fail("cuStreamIsCapturing", 400);
  EXPECT_EQ(error_of([&] { device().is_capturing(stream); }).code(), ErrorCode::device_failed);
}

}  // namespace
}  // namespace tunesmith
