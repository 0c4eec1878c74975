// The same numerics on a GPU: more cases, larger ones, 64-bit offsets, repeats bit for bit.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "api/engine_parts.h"
#include "templates/half.h"
#include "tests/softmax_cases.h"
#include "tuner/verify.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

class SoftmaxGpu : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options = EngineOptions::from_environment();
    options.device = "cuda";
    options.mode = Mode::off;
    try {
      engine_ = std::make_unique<Engine>(options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device) throw;
      GTEST_SKIP() << "no GPU here";
    }
  }
  Device& device() { return *engine_->parts().device; }

  CheckResult verify_case(const test::Case& c) {
    const Engine::Parts& parts = engine_->parts();
    const Built built =
        build_binary(op_, c.problem, c.config, device().info().arch, *parts.compiler, *parts.cache, parts.templates);
    const auto executable = make_executable(op_, c.problem, c.config, built.binary, device());
    return verify(op_, c.problem, *executable, device(), 5);
  }

  /// Compiles on all cores into the engine's cache, then verifies one after the other; returns the worst float32 error.
  double verify_all(const std::vector<test::Case>& cases) {
    const Engine::Parts& parts = engine_->parts();
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> compilers;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
      compilers.emplace_back([&] {
        for (std::size_t at = next++; at < cases.size(); at = next++)
          build_binary(op_, cases[at].problem, cases[at].config, device().info().arch, *parts.compiler, *parts.cache,
                       parts.templates);
      });
    for (std::thread& compiler : compilers) compiler.join();
    double worst = 0;
    for (const test::Case& c : cases) {
      const CheckResult result = verify_case(c);
      EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
      if (c.problem.fields.word("out_dtype") == "f32") worst = std::max(worst, result.max_error);
    }
    EXPECT_LE(worst, 4.0);  // what the documentation promises; the check's own bound is what must hold for any input
    std::printf("%zu configurations, worst float32 error %.2f ULP\n", cases.size(), worst);
    return worst;
  }

  const Op& op_ = find_op("softmax");
  std::unique_ptr<Engine> engine_;
};

TEST_F(SoftmaxGpu, EdgeProblemsInEveryVariant) {
  std::uint64_t seed = 100;
  std::vector<test::Case> cases;
  for (const Problem& problem : test::edge_problems(1027))
    for (const Config& config : test::sample_space(problem, device().info(), 4, seed++)) cases.push_back({problem, config});
  EXPECT_GT(verify_all(cases), 0.5);  // the judge saw real rounding errors
}

TEST_F(SoftmaxGpu, TheWholeFullSpaceOfCommonShapes) {
  std::vector<test::Case> cases;
  for (const char* fields : {"rows=259,cols=1024", "rows=131,cols=8192,dtype=bf16"}) {
    const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
    for (const Config& config : op_.search_space(problem, device().info(), Effort::full)) cases.push_back({problem, config});
  }
  verify_all(cases);
}

TEST_F(SoftmaxGpu, LongRowsStayWithinTheBound) {
  std::vector<test::Case> cases;
  for (const char* fields :
       {"rows=33,cols=50257", "rows=33,cols=131072", "rows=17,cols=1048576", "rows=17,cols=262144,dtype=bf16"}) {
    const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
    for (const Config& config : test::sample_space(problem, device().info(), 12, 9)) cases.push_back({problem, config});
  }
  verify_all(cases);
}

// More than 2^31 elements and more than 2^32 bytes from the base: an offset in 32 bits would wrap.
TEST_F(SoftmaxGpu, OffsetsAreSixtyFourBits) {
  constexpr std::int64_t rows = 70000, cols = 40000;  // 2.8e9 elements
  if (device().info().memory_bytes < std::int64_t{16} << 30) GTEST_SKIP() << "needs 12 GB of device memory";
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, DType::bf16);
  const DeviceBuffer x(*engine_, rows * cols * 2), y(*engine_, rows * cols * 2);
  device().fill(x.data(), 0, x.bytes());
  device().fill(y.data(), 0xff, y.bytes());
  // The last row alone is not constant: its first half is -inf.
  std::vector<std::uint16_t> row(cols, 0);
  std::fill(row.begin(), row.begin() + cols / 2, std::uint16_t{0xff80});
  device().copy_to_device(static_cast<std::byte*>(x.data()) + (rows - 1) * cols * 2, row.data(), cols * 2);
  engine_->prepare(problem).launch(x.data(), y.data());
  engine_->synchronize();
  const auto value = [&](std::int64_t index) {
    std::byte element[2];
    device().copy_to_host(element, static_cast<std::byte*>(y.data()) + index * 2, 2);
    return read_element(DType::bf16, element, 0);
  };
  EXPECT_NEAR(value(0), 1.0 / cols, 1e-7);
  EXPECT_NEAR(value((rows - 1) * cols - 1), 1.0 / cols, 1e-7);
  EXPECT_EQ(value((rows - 1) * cols), 0.0);
  EXPECT_EQ(value((rows - 1) * cols + cols / 2 - 1), 0.0);
  EXPECT_NEAR(value(rows * cols - 1), 2.0 / cols, 2e-7);
}

TEST_F(SoftmaxGpu, RepeatsBitForBit) {
  constexpr std::int64_t rows = 513, cols = 8191;
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, DType::f32);
  const Problem normal = op_.normalize(to_problem(problem));
  const DeviceBuffer x(*engine_, rows * cols * 4), y(*engine_, rows * cols * 4);
  std::vector<std::byte> host(rows * cols * 4), first(host.size()), again(host.size());
  const std::vector<HostArray> arrays{{op_.arrays(normal)[0], host.data()}, {op_.arrays(normal)[1], first.data()}};
  op_.fill_inputs(normal, 1, InputKind::random, arrays);
  device().copy_to_device(x.data(), host.data(), host.size());
  const Plan plan = engine_->prepare(problem);
  for (int i = 0; i < 20; ++i) {
    device().fill(y.data(), 0xff, y.bytes());
    plan.launch(x.data(), y.data());
    engine_->synchronize();
    device().copy_to_host((i == 0 ? first : again).data(), y.data(), y.bytes());
    if (i > 0) {
      ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size()), 0) << "run " << i;
    }
  }
}

}  // namespace
}  // namespace tunesmith
