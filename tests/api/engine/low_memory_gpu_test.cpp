// First calls of a default engine on a GPU whose memory is almost full, as behind a framework with a caching allocator.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "api/engine/parts.h"
#include "tunesmith/buffer.h"
#include "tunesmith/rms_norm.h"

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

/// A default engine, and the warnings of the current call.
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
      if (level == EngineOptions::Level::warning) warnings_.push_back(line);
    };
    try {
      engine_ = std::make_unique<Engine>(options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device) throw;
      GTEST_SKIP() << error.what();
    }
  }

  std::vector<std::string> warnings_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(LowMemory, FirstCallsAreRight) {
  constexpr std::int64_t rows = 64, cols = 1024, keys = 512, head_dim = 64;
  const auto bytes_of = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * 4; };
  const DeviceBuffer zeros(*engine_, bytes_of(rows * cols)), ones(*engine_, bytes_of(rows * cols)),
      targets(*engine_, rows * 8), lse_of_zeros(*engine_, bytes_of(keys));
  const DeviceBuffer probabilities(*engine_, bytes_of(rows * cols)), dx(*engine_, bytes_of(rows * cols)), loss(*engine_, 4),
      lse(*engine_, bytes_of(rows)), dlogits(*engine_, bytes_of(rows * cols)), o(*engine_, bytes_of(head_dim)),
      dq(*engine_, bytes_of(keys * head_dim)), dk(*engine_, bytes_of(keys * head_dim)),
      dv(*engine_, bytes_of(keys * head_dim)), scaled(*engine_, bytes_of(rows * cols)),
      normalized(*engine_, bytes_of(rows * cols));
  Device& device = *engine_->parts().device;
  for (const DeviceBuffer* const inputs : {&zeros, &targets}) device.fill(inputs->data(), 0, inputs->bytes());
  for (const DeviceBuffer* const outputs :
       {&probabilities, &dx, &loss, &lse, &dlogits, &o, &dq, &dk, &dv, &scaled, &normalized})
    device.fill(outputs->data(), 0xff, outputs->bytes());
  const auto fill = [&](const DeviceBuffer& array, float value) {
    const std::vector<float> values(array.bytes() / 4, value);
    device.copy_to_device(array.data(), values.data(), array.bytes());
  };
  fill(ones, 1);
  fill(lse_of_zeros, std::log(static_cast<float>(keys)));

  const auto left = static_cast<std::size_t>(GetParam()) * mib;
  auto full = std::make_unique<FullMemory>(device, left);
  // With nothing left, not even the default kernel may fit. Then the error says so, and the call works when memory is free.
  const auto call = [&](const char* name, const auto& work) {
    warnings_.clear();
    try {
      work();
    } catch (const Error& error) {
      if (left > 0 || error.code() != ErrorCode::out_of_memory) throw;
      full.reset();
      work();
      full = std::make_unique<FullMemory>(device, left);
    }
    EXPECT_LE(warnings_.size(), 1u) << name << ":\n" << testing::PrintToString(warnings_);
  };
  call("softmax",
       [&] { engine_->softmax(zeros.data(), probabilities.data(), SoftmaxProblem::contiguous(rows, cols, DType::f32)); });
  call("softmax_backward", [&] {
    engine_->run(SoftmaxBackwardProblem::contiguous(rows, cols, DType::f32),
                 {.dy = ones.data(), .y = ones.data(), .dx = dx.data()});
  });
  CrossEntropyProblem cross_entropy = CrossEntropyProblem::contiguous(rows, cols, DType::f32);
  cross_entropy.gradient = Gradient::separate;
  call("cross_entropy", [&] {
    engine_->run(cross_entropy, {.logits = zeros.data(),
                                 .targets = targets.data(),
                                 .loss = loss.data(),
                                 .lse = lse.data(),
                                 .dlogits = dlogits.data()});
  });
  AttentionProblem decode;
  decode.seq_q = 1;
  decode.seq_kv = keys;
  decode.head_dim = head_dim;
  decode.dtype = DType::f32;
  call("attention", [&] { engine_->run(decode, {.q = zeros.data(), .k = zeros.data(), .v = zeros.data(), .o = o.data()}); });
  AttentionBackwardProblem backward;
  backward.seq_q = keys;
  backward.head_dim = head_dim;
  backward.dtype = DType::f32;
  AttentionBackwardArrays gradients;
  gradients.q = gradients.k = gradients.v = gradients.o = zeros.data();
  gradients.lse = static_cast<const float*>(lse_of_zeros.data());
  gradients.dout = ones.data();
  gradients.dq = dq.data();
  gradients.dk = dk.data();
  gradients.dv = dv.data();
  call("attention_backward", [&] { engine_->run(backward, gradients); });
  RmsNormProblem rms_norm;
  rms_norm.rows = rows;
  rms_norm.cols = cols;
  rms_norm.dtype = DType::f32;
  call("rms_norm", [&] { engine_->run(rms_norm, {.x = ones.data(), .y = scaled.data()}); });
  const Problem layer_norm{"layer_norm", {{"rows", rows}, {"cols", cols}, {"dtype", std::string("f32")}}};
  call("layer_norm", [&] {
    engine_->run(layer_norm, std::array<void*, 4>{zeros.data(), ones.data(), ones.data(), normalized.data()});
  });
  engine_->synchronize();

  const auto expect_all = [&](const char* name, const DeviceBuffer& array, double expected, double error) {
    std::vector<float> values(array.bytes() / 4);
    array.copy_to_host(values.data(), array.bytes());
    for (const float value : values) ASSERT_NEAR(value, expected, error) << name;
  };
  constexpr double ulp = 0x1p-23;
  expect_all("probabilities", probabilities, 1.0 / cols, 0);
  expect_all("dx = y * (dy - sum(dy * y))", dx, 1 - cols, 0);
  expect_all("loss", loss, std::log(static_cast<double>(cols)), 1e-6);  // one ULP of 6.93 is 4.8e-7
  expect_all("o", o, 0, 0);
  expect_all("dq", dq, 0, 0);
  expect_all("dk", dk, 0, 0);
  // The sum of 512 equal terms, and e^-lse from an lse that is rounded: half an ULP of 6.2.
  expect_all("dv", dv, 1, keys * ulp + 4 * ulp);
  expect_all("rms_norm of ones", scaled, 1 / std::sqrt(1 + 1e-6), 4 * ulp);
  expect_all("layer_norm of zeros with bias 1", normalized, 1, 0);
  std::vector<float> row(cols);
  dlogits.copy_to_host(row.data(), row.size() * 4);
  for (std::int64_t c = 0; c < cols; ++c)
    ASSERT_NEAR(row[static_cast<std::size_t>(c)], (1.0 / cols - (c == 0 ? 1 : 0)) / rows, 1e-8) << c;
}

INSTANTIATE_TEST_SUITE_P(MibLeft, LowMemory, testing::Values(0, 50, 200, 1000));

}  // namespace
}  // namespace tunesmith
