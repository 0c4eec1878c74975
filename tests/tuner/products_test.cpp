// The choice among a matrix library's algorithms, with a scripted library on the host executor.

#include "tuner/products.h"

#include <gtest/gtest.h>

#include "core/half.h"
#include "jit/host/matmul.h"
#include "tests/tuner/fakes.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// The behavior of one algorithm.
struct ScriptedAlgorithm {
  double time_us = 10;
  float wrong_by = 0;  ///< added to the last element of c
  bool fails = false;
};

class ScriptedLibrary final : public MatmulLibrary {
 public:
  std::vector<ScriptedAlgorithm> scripts;
  std::string version = "scripted 1";
  double last_us = 0;  ///< of the product that ran last
  int max_requested = 0;

  using MatmulLibrary::prepare;
  std::vector<std::unique_ptr<PreparedMatmul>> prepare(const MatmulProblem& problem, int most) override {
    max_requested = most;
    std::vector<std::unique_ptr<PreparedMatmul>> products;
    for (std::size_t i = 0; i < scripts.size() && i < static_cast<std::size_t>(most); ++i)
      products.push_back(std::make_unique<Product>(*this, problem, i));
    return products;
  }
  std::size_t workspace_bytes() const noexcept override { return 0; }
  std::string identity() const override { return version; }

 private:
  struct Product : PreparedMatmul {
    Product(ScriptedLibrary& owner, const MatmulProblem& problem, std::size_t number)
        : library(owner), p(problem), at(number), host(HostMatmul().prepare(problem, 1)) {}
    void enqueue(const MatmulArrays& arrays, Stream stream) const override {
      const ScriptedAlgorithm& script = library.scripts.at(at);
      if (script.fails) throw Error(ErrorCode::unsupported, "no such kernel");
      host.front()->enqueue(arrays, stream);
      const std::int64_t last = (p.m - 1) * p.c_row_stride + p.n - 1;
      auto* const c = static_cast<std::byte*>(arrays.c);
      if (script.wrong_by != 0)
        write_element(p.out_dtype, c, last, static_cast<float>(read_element(p.out_dtype, c, last)) + script.wrong_by);
      library.last_us = script.time_us;
    }
    ScriptedLibrary& library;
    const MatmulProblem p;
    const std::size_t at;
    const std::vector<std::unique_ptr<PreparedMatmul>> host;
  };
};

/// Memory of the host, with the library's times.
class TimedDevice final : public fakes::ScriptedDevice {
 public:
  explicit TimedDevice(const ScriptedLibrary& library) : ScriptedDevice(no_kernels), library_(library) {}
  int measurements = 0;

  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool) override {
    std::vector<double> times;
    for (const auto& work : works) {
      work(nullptr);
      times.push_back(library_.last_us + 0.01 * (++measurements % 2));
    }
    return times;
  }

 private:
  inline static const fakes::Scripts no_kernels{};
  const ScriptedLibrary& library_;
};

class ProductsTest : public testing::Test {
 protected:
  ProductsTest() {
    problem_.m = 17;
    problem_.n = problem_.b_row_stride = 40;
    problem_.c_row_stride = 48;
    problem_.k = problem_.a_row_stride = 33;
    problem_.dtype = problem_.out_dtype = DType::bf16;
    problem_.factors.emplace();
  }

  /// Returns the number of the chosen algorithm.
  std::size_t choose(const ProductOptions& options = {.measure_s = 10}) {
    const auto product = choose_product(library_, problem_, device_, cache_, options);
    const std::vector<ScriptedAlgorithm> scripts = library_.scripts;
    for (std::size_t i = 0; i < scripts.size(); ++i) library_.scripts[i] = {.time_us = static_cast<double>(i)};
    std::vector<std::byte> zeros(std::size_t{1} << 16), c(zeros.size());
    const float alpha = 1, beta = 0;
    product->enqueue({zeros.data(), zeros.data(), c.data(), &alpha, &beta, nullptr, zeros.data()}, nullptr);
    library_.scripts = scripts;
    return static_cast<std::size_t>(library_.last_us);
  }
  std::vector<Trial> trials() {
    const std::vector<TuningRecord> records = cache_.list_records();
    return records.empty() ? std::vector<Trial>() : cache_.find_trials(records.front().key);
  }

  ScriptedLibrary library_;
  TimedDevice device_{library_};
  Cache cache_{CacheOptions{}};
  MatmulProblem problem_;
};

TEST_F(ProductsTest, TheFastestRightAlgorithmWinsAndIsRecorded) {
  library_.scripts = {{.time_us = 10}, {.time_us = 4, .wrong_by = 3}, {.time_us = 5, .fails = true}, {.time_us = 8}};
  EXPECT_EQ(choose(), 3U);
  const std::vector<Trial> all = trials();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].status, "timed") << "the preference is never dropped";
  EXPECT_EQ(all[1].status, "wrong");
  EXPECT_NE(all[1].reason.find("c[16,39] is "), std::string::npos) << all[1].reason;
  EXPECT_EQ(all[2].status, "launch_failed");
  EXPECT_EQ(all[3].status, "timed");
  const TuningRecord record = cache_.list_records().at(0);
  EXPECT_EQ(record.config, "algorithm=3");
  EXPECT_NEAR(record.median_us, 8, 0.1);
  EXPECT_NEAR(record.default_median_us, 10, 0.1);
  const int measured = device_.measurements;
  EXPECT_EQ(choose(), 3U);
  EXPECT_EQ(choose({}), 3U);
  EXPECT_EQ(device_.measurements, measured) << "the record was used";
}

TEST_F(ProductsTest, AlmostAsFastIsNotFaster) {
  library_.scripts = {{.time_us = 10}, {.time_us = 9.95}};
  EXPECT_EQ(choose(), 0U);
}

TEST_F(ProductsTest, AWrongPreferenceIsNotUsed) {
  library_.scripts = {{.time_us = 1, .wrong_by = 2}, {.time_us = 10}};
  EXPECT_EQ(choose(), 1U);
  library_.scripts = {{.wrong_by = 2}, {.wrong_by = -2}};
  problem_.m = 18;
  try {
    choose();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::verification_failed) << error.what();
  }
}

TEST_F(ProductsTest, EveryKindOfProductIsChecked) {
  library_.scripts = {{.time_us = 10}, {.time_us = 5}, {.time_us = 1, .wrong_by = 4}};
  const MatmulProblem plain = problem_;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        for (const int factors : {0, 1, 2}) {
          problem_ = plain;
          problem_.transpose_a = transpose_a;
          problem_.transpose_b = transpose_b;
          problem_.a_row_stride = problem_.b_row_stride = 48;
          problem_.dtype = dtype;
          problem_.out_dtype = factors == 2 ? DType::f32 : dtype;
          problem_.bias = factors != 1;
          problem_.factors.reset();
          if (factors > 0) problem_.factors = {factors == 1 ? 1.0f : 0.5f, factors == 1 ? 1.0f : 0.0f};
          EXPECT_EQ(choose(), 1U) << problem_.text() << ", factors " << factors;
        }
}

TEST_F(ProductsTest, RecordsOfOtherProblemsAndLibrariesAreNotUsed) {
  library_.scripts = {{.time_us = 10}, {.time_us = 5}};
  EXPECT_EQ(choose(), 1U);
  EXPECT_EQ(choose({.reads_records = false}), 0U);
  EXPECT_EQ(library_.max_requested, 1) << "other algorithms are of no use";
  library_.version = "scripted 2";
  EXPECT_EQ(choose({}), 0U);
  library_.version = "scripted 1";
  problem_.c_row_stride = 56;
  EXPECT_EQ(choose({}), 0U);
  problem_.c_row_stride = 48;
  problem_.factors->beta = 1;
  EXPECT_EQ(choose({}), 0U);
  problem_.factors->beta = 0;
  EXPECT_EQ(choose({}), 1U);
  library_.scripts.pop_back();
  EXPECT_EQ(choose({}), 0U) << "the recorded algorithm does not exist";
  library_.scripts = {{}, {}};
  TuningRecord record = cache_.list_records().at(0);
  for (const char* config : {"algorithm=-1", "algorithm=9", "algorithm=x", "nonsense"}) {
    record.config = config;
    cache_.store_record(record, {});
    EXPECT_EQ(choose({}), 0U) << config;
  }
}

TEST_F(ProductsTest, WithoutMemoryThePreferenceIsUsed) {
  library_.scripts = {{.time_us = 10}, {.time_us = 5}};
  device_.free_bytes = 1000;
  EXPECT_EQ(choose(), 0U);
  EXPECT_TRUE(cache_.list_records().empty());
}

}  // namespace
}  // namespace tunesmith
