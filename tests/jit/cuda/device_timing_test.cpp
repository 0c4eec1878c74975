// Measurements with the scripted driver, whose clock advances one microsecond per block and a thousand per flush.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "jit/cuda/measuring_lock.h"
#include "tests/jit/cuda/device_fixture.h"

namespace tunesmith {
namespace {

class CudaTimingTest : public CudaDeviceTest {
 protected:
  std::function<void(Stream)> work(std::uint32_t blocks) {
    if (module_ == nullptr) module_ = device().load(binary());
    kernels_.push_back(device().prepare(*module_, scale(blocks)));
    return [this, kernel = kernels_.back().get()](Stream stream) { kernel->enqueue(params_, stream); };
  }
  /// Returns what a second measurement of two works calls.
  std::string sequence_of_two_works(bool flush_l2) {
    const std::vector<std::function<void(Stream)>> works{work(3), work(70)};
    device().time_us(works, flush_l2);
    fake_->calls.clear();
    device().time_us(works, flush_l2);
    std::string sequence;
    for (const std::string& call : fake_->calls) {
      if (call.starts_with("cuCtxResetPersistingL2Cache")) sequence += "reset ";
      if (call.starts_with("cuMemsetD32")) sequence += "flush ";
      if (call.starts_with("cuEventRecord")) sequence += "record ";
      if (call.starts_with("cuLaunchKernel")) sequence += "launch ";
      if (call.starts_with("cuStreamSynchronize")) sequence += "wait ";
      if (call.starts_with("cuEventElapsed")) sequence += "read ";
      EXPECT_FALSE(call.starts_with("cuEventCreate") || call.starts_with("cuMemAlloc") || call.starts_with("cuStreamCreate"))
          << call << ": later measurements reuse the objects of the first";
    }
    return sequence;
  }
  ~CudaTimingTest() override {
    kernels_.clear();
    module_.reset();
  }

  std::shared_ptr<Module> module_;
  std::vector<std::unique_ptr<PreparedKernel>> kernels_;
};

TEST_F(CudaTimingTest, TimesExcludeTheFlush) {
  const std::vector<std::function<void(Stream)>> works{work(3), work(70), work(1)};
  const std::vector<double> times = device().time_us(works, true);
  ASSERT_EQ(times.size(), 3u);
  EXPECT_NEAR(times[0], 3, 1e-3);
  EXPECT_NEAR(times[1], 70, 1e-3);
  EXPECT_NEAR(times[2], 1, 1e-3);
}

TEST_F(CudaTimingTest, EnqueuesAllWorksAndWaitsOnce) {
  EXPECT_EQ(sequence_of_two_works(true), "reset flush record launch record flush record launch record wait read read ");
  EXPECT_EQ(sequence_of_two_works(false), "record launch record record launch record wait read read ");
}

TEST_F(CudaTimingTest, WithoutEvictionPoliciesResetsNothing) {
  fake_->major = 7;
  fake_->minor = 5;
  EXPECT_EQ(sequence_of_two_works(true), "flush record launch record flush record launch record wait read read ");
}

TEST_F(CudaTimingTest, FlushIsLargerThanTheCache) {
  device().time_us(std::vector{work(1)}, true);
  EXPECT_EQ(fake_->count("cuMemAlloc " + std::to_string(256 << 20)), 1) << "at least 256 MiB";
  kernels_.clear();
  module_.reset();
  device_.reset();
  fake_->l2_bytes = 200 << 20;
  device().time_us(std::vector{work(1)}, true);
  EXPECT_EQ(fake_->count("cuMemAlloc " + std::to_string(400 << 20)), 1) << "twice the cache";
}

TEST_F(CudaTimingTest, FlushesLessWhereMemoryIsShort) {
  fail("cuMemAlloc", cuda::error_out_of_memory, 3);
  EXPECT_NEAR(device().time_us(std::vector{work(5)}, true).at(0), 5, 1e-3);
  EXPECT_EQ(fake_->count("cuMemAlloc " + std::to_string(32 << 20)), 1);
  EXPECT_EQ(fake_->count("cuMemsetD32Async"), 1);
}

TEST_F(CudaTimingTest, WithoutMemoryForAnyFlushMeasuringFails) {
  fail("cuMemAlloc", cuda::error_out_of_memory, 100);
  try {
    device().time_us(std::vector{work(5)}, true);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("flush the L2 cache"), std::string::npos) << error.what();
  }
  fail("cuMemAlloc", cuda::success, 0);
  EXPECT_NEAR(device().time_us(std::vector{work(5)}, true).at(0), 5, 1e-3) << "memory is there again";
}

TEST_F(CudaTimingTest, AllocatesNothingWithoutAFlush) {
  EXPECT_NEAR(device().time_us(std::vector{work(5)}, false).at(0), 5, 1e-3);
  EXPECT_EQ(fake_->count("cuMemAlloc"), 0);
  EXPECT_TRUE(device().time_us({}, true).empty());
}

TEST_F(CudaTimingTest, ReleasesEverythingWithTheDevice) {
  device().time_us(std::vector{work(5), work(5)}, true);
  EXPECT_EQ(fake_->events, 4);
  kernels_.clear();
  module_.reset();
  device_.reset();
  EXPECT_EQ(fake_->events, 0);
  EXPECT_EQ(fake_->streams, 0);
  EXPECT_EQ(fake_->allocations, 0);
}

TEST_F(CudaTimingTest, UsesTheCallersContext) {
  device().time_us(std::vector{work(5)}, false);
  {
    const CurrentContext application(push_, pop_, application_context(0));
    const std::vector<std::function<void(Stream)>> works{work(6)};
    EXPECT_NEAR(device().time_us(works, false).at(0), 6, 1e-3);
    EXPECT_TRUE(last_launch().ends_with("context=0x2000")) << last_launch();
  }
  EXPECT_EQ(fake_->streams, 1) << "the stream of the first context was released";
}

TEST_F(CudaTimingTest, WaitsForEnqueuedWorkAfterAnException) {
  const std::vector<std::function<void(Stream)>> works{work(5),
                                                       [](Stream) { throw Error(ErrorCode::device_failed, "scripted"); }};
  const Error error = error_of([&] { device().time_us(works, false); });
  EXPECT_STREQ(error.what(), "scripted");
  EXPECT_GT(fake_->index_of("cuStreamSynchronize"), fake_->index_of("cuLaunchKernel"));
}

TEST(MeasuringLock, ExcludesThreadsAndProcesses) {
  const TemporaryFolder folder;
  std::atomic<bool> second_has_it = false;
  std::jthread second;
  {
    const MeasuringLock first(folder.path(), "GPU-1");
    EXPECT_TRUE(first.across_processes());
    const MeasuringLock other_gpu(folder.path(), "GPU-2");
    // Opens the file separately, as another process would.
    const int file = open((folder.path() / "tunesmith-measuring-GPU-1.lock").c_str(), O_RDONLY);
    ASSERT_GE(file, 0);
    EXPECT_NE(flock(file, LOCK_EX | LOCK_NB), 0);
    close(file);
    second = std::jthread([&] {
      const MeasuringLock lock(folder.path(), "GPU-1");
      second_has_it = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(second_has_it);
  }
  second.join();
  EXPECT_TRUE(second_has_it);
}

TEST(MeasuringLock, GivesUpWhenItIsHeldForTooLong) {
  const TemporaryFolder folder;
  const MeasuringLock first(folder.path(), "GPU-1");
  try {
    const MeasuringLock second(folder.path(), "GPU-1", std::chrono::milliseconds(20));
    FAIL() << "two owners";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
    EXPECT_NE(std::string(error.what()).find("GPU-1 for more than 0.02 s"), std::string::npos) << error.what();
  }
}

TEST(MeasuringLock, ExcludesThreadsWithoutAFile) {
  const TemporaryFolder folder;
  const std::filesystem::path nowhere = folder.path() / "missing";
  std::atomic<bool> second_has_it = false;
  std::jthread second;
  {
    const MeasuringLock first(nowhere, "GPU-1");
    EXPECT_FALSE(first.across_processes());
    second = std::jthread([&] {
      const MeasuringLock lock(nowhere, "GPU-1");
      second_has_it = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(second_has_it);
  }
  second.join();
  EXPECT_TRUE(second_has_it);
}

TEST(MeasuringLock, DoesNotFollowASymbolicLink) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "victim") << "x";
  std::filesystem::create_symlink(folder.path() / "victim", folder.path() / "tunesmith-measuring-GPU-1.lock");
  EXPECT_FALSE(MeasuringLock(folder.path(), "GPU-1").across_processes());
}

}  // namespace
}  // namespace tunesmith
