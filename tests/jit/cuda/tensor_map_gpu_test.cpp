// Tensor maps, TMA and wgmma on a GPU: products and copies with a launch plan, compared with float64. Every test is skipped,
// with the reason, without an sm_90a GPU.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "jit/cuda/context_scope.h"
#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tests/jit/cuda/tensor_map_checks.h"

namespace tunesmith::test {
namespace {

// Ends the process if a kernel deadlocks, which would hang the GPU.
constexpr unsigned watchdog_s = 120;

class TensorMapGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      auto device = std::make_unique<CudaDevice>(0);
      if (name(device->info().arch) != "sm_90a") {
        why_skipped_ = device->info().name + " is of " + name(device->info().arch) + "; wgmma needs sm_90a";
        return;
      }
      const Binary binary = NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}})
                                .compile({"tensor_map_test.cu", TensorMapChecks::all_kernels(), device->info().arch});
      EXPECT_EQ(binary.log.find("(C75"), std::string::npos) << binary.log;
      module_ = device->load(binary);
      device_ = std::move(device);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device && error.code() != ErrorCode::no_compiler) throw;
      why_skipped_ = error.what();
    }
  }
  static void TearDownTestSuite() {
    module_.reset();
    device_.reset();
  }
  void SetUp() override {
    if (!why_skipped_.empty()) GTEST_SKIP() << why_skipped_;
    alarm(watchdog_s);
    checks_ = std::make_unique<TensorMapChecks>(*device_, module_);
  }
  void TearDown() override {
    alarm(0);
    checks_.reset();
  }

  inline static std::string why_skipped_;
  inline static std::unique_ptr<CudaDevice> device_;
  inline static std::shared_ptr<Module> module_;
  std::unique_ptr<TensorMapChecks> checks_;
};

TEST_F(TensorMapGpu, ProductsAgreeWithFloat64) {
  for (const Product& product : products) {
    alarm(watchdog_s);
    checks_->agrees_with_float64(product);
  }
}

TEST_F(TensorMapGpu, CopiesFiveDimensionalBoxesAndFillsWithZeros) {
  checks_->copies_five_dimensional_boxes_and_fills_with_zeros();
}

TEST_F(TensorMapGpu, StoresMatricesTransposed) { checks_->stores_matrices_transposed(); }

// Every launch encodes the maps. The budget is a few hundred nanoseconds; otherwise they must be cached between launches.
TEST_F(TensorMapGpu, EncodingIsCheap) {
  const Matrices a{DType::bf16, 2, 8, 4096, 128, true};
  const std::vector<std::byte> bytes(static_cast<std::size_t>(a.bytes()));
  void* const memory = checks_->upload(bytes.data(), bytes.size());
  const auto prepared = device_->prepare_tensor_map(a.map(0, 64, 128), "a");
  alignas(64) std::byte map[128];
  constexpr int repeats = 20000;
  prepared->encode(map, memory);
  const auto measure = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) prepared->encode(map, memory);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / repeats;
  };
  const double without_context_ns = measure();
  std::printf("encoding a tensor map: %.0f ns from a thread without a context\n", without_context_ns);
  EXPECT_LT(without_context_ns, 20000);
  const ContextScope scope(*device_);
  const double ns = measure();
  std::printf("encoding a tensor map: %.0f ns\n", ns);
  RecordProperty("encode_ns", std::to_string(ns));
  EXPECT_LT(ns, 2000);
}

}  // namespace
}  // namespace tunesmith::test
