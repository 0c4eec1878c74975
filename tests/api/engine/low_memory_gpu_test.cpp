// First calls of a default engine on a GPU whose memory is almost full, as behind a framework with a caching allocator.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "api/engine/parts.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// Allocates all device memory but `left` bytes.
class FullMemory {
 public:
  FullMemory(Device& device, std::size_t left) : device_(device) {
    void* const reserved = left > 0 ? device.allocate(left) : nullptr;
    for (std::size_t size = 4096 * mib; size >= mib; size /= 2)
      while (take(size)) {
      }
    if (reserved != nullptr) device.release(reserved);
  }
  ~FullMemory() {
    for (void* const piece : pieces_) device_.release(piece);
  }
  FullMemory(const FullMemory&) = delete;
  FullMemory& operator=(const FullMemory&) = delete;

 private:
  bool take(std::size_t size) try {
    pieces_.push_back(device_.allocate(size));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    return false;
  }

  Device& device_;
  std::vector<void*> pieces_;
};

class LowMemory : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (std::getenv("TUNESMITH_FULL_MEMORY") == nullptr)
      GTEST_SKIP() << "fills the GPU's memory: set TUNESMITH_FULL_MEMORY and run it alone";
    EngineOptions options;
    options.device = "cuda";
    options.cache_file.clear();
    options.system_caches.clear();
    options.shipped_cache.clear();
    options.log = [this](EngineOptions::Level level, const std::string& line) {
      if (level == EngineOptions::Level::warning) warnings_ += line + "\n";
    };
    try {
      engine_ = std::make_unique<Engine>(options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device) throw;
      GTEST_SKIP() << error.what();
    }
  }

  std::string warnings_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(LowMemory, FirstCallsAreRight) {
  constexpr std::int64_t rows = 64, cols = 1024, keys = 512, head_dim = 64;
  const std::vector<float> zeros(rows * cols, 0.0f);
  DeviceBuffer x(*engine_, rows * cols * 4), y(*engine_, rows * cols * 4), lse(*engine_, rows * 4), loss(*engine_, 4),
      targets(*engine_, rows * 8), o(*engine_, head_dim * 4);
  x.copy_from_host(zeros.data(), zeros.size() * 4);
  const std::vector<std::int64_t> first_class(rows, 0);
  targets.copy_from_host(first_class.data(), first_class.size() * 8);

  const auto left = static_cast<std::size_t>(GetParam()) * mib;
  auto full = std::make_unique<FullMemory>(*engine_->parts().device, left);
  // With nothing left, not even the default kernel may fit. Then the error says so, and the call works when memory is free.
  const auto call = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      if (left > 0 || error.code() != ErrorCode::out_of_memory) throw;
      full.reset();
      work();
      full = std::make_unique<FullMemory>(*engine_->parts().device, left);
    }
  };
  call([&] { engine_->softmax(x.data(), y.data(), SoftmaxProblem::contiguous(rows, cols, DType::f32)); });
  call([&] {
    engine_->run(CrossEntropyProblem::contiguous(rows, cols, DType::f32),
                 {.logits = x.data(), .targets = targets.data(), .loss = loss.data(), .lse = lse.data()});
  });
  AttentionProblem attention;
  attention.seq_q = 1;
  attention.seq_kv = keys;
  attention.head_dim = head_dim;
  attention.dtype = DType::f32;
  call([&] { engine_->run(attention, {.q = x.data(), .k = x.data(), .v = x.data(), .o = o.data()}); });
  engine_->synchronize();

  std::vector<float> probabilities(rows * cols, -1), output(head_dim, -1);
  float mean = -1;
  y.copy_to_host(probabilities.data(), probabilities.size() * 4);
  loss.copy_to_host(&mean, 4);
  o.copy_to_host(output.data(), output.size() * 4);
  for (const float p : probabilities) ASSERT_EQ(p, 1.0f / cols) << warnings_;
  EXPECT_NEAR(mean, std::log(static_cast<double>(cols)), 1e-6) << warnings_;  // one ULP of 6.93 is 4.8e-7
  for (const float value : output) ASSERT_EQ(value, 0.0f) << warnings_;
}

INSTANTIATE_TEST_SUITE_P(MibLeft, LowMemory, testing::Values(0, 50, 200, 1000));

}  // namespace
}  // namespace tunesmith
