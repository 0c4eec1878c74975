// The C API's operations: options, optional arrays and results. Runs on the host executor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tests/api/c/fixture.h"
#include "tunesmith/c_api.h"

namespace {

using tunesmith::test::CApi;
using tunesmith::test::expect_message;
using tunesmith::test::NamedProblem;

TEST_F(CApi, OptionsAreFieldsOfTheProblem) {
  const float x[8] = {1, 2, 3, 4, 1, 2, 3, 4};
  const std::uint8_t mask[8] = {1, 0, 1, 1, 0, 0, 0, 0};
  const std::int32_t valid_cols[2] = {3, 4};
  float y[8] = {};
  tunesmith_problem_set_int(problem_, "rows", 2);
  tunesmith_problem_set_int(problem_, "cols", 4);
  tunesmith_problem_set_real(problem_, "scale", 0.5);
  tunesmith_problem_set_string(problem_, "mask", "keep");
  tunesmith_problem_set_int(problem_, "valid_cols", 1);
  tunesmith_problem_set_int(problem_, "safe", 1);
  // These arrays are wherever the compiler put them.
  for (const char* field : {"x_alignment", "y_alignment"}) tunesmith_problem_set_int(problem_, field, 4);
  tunesmith_problem_set_int(problem_, "mask_alignment", 1);
  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, problem_, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  void* const arrays[4] = {const_cast<float*>(x), y, const_cast<std::uint8_t*>(mask), const_cast<std::int32_t*>(valid_cols)};
  ASSERT_EQ(tunesmith_plan_launch(plan, arrays, 4, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  const double first = 1 / (1 + std::exp(0.5 * (3 - 1)));
  const double expected[8] = {first, 0, 1 - first, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
  EXPECT_EQ(tunesmith_plan_launch(plan, arrays, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"2 arrays", "4"});
  tunesmith_plan_destroy(plan);

  tunesmith_problem_set_string(problem_, "mask", "multiply");
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mask is 'multiply'", "keep"});
}

TEST_F(CApi, CrossEntropyInPlaceAndBackward) {
  constexpr std::size_t rows = 3, cols = 4;
  alignas(16) const float logits[rows * cols] = {1, 2, 3, 4, 0, 0, 0, 0, 5, -1, 2, 0};
  std::int32_t targets[rows] = {2, -100, 0};
  float loss = -1, lse[rows] = {}, nll[rows] = {}, one = 1;
  alignas(16) float over_logits[rows * cols], from_lse[rows * cols] = {};
  std::copy(std::begin(logits), std::end(logits), over_logits);
  NamedProblem problem(
      "cross_entropy",
      {{"rows", 3}, {"cols", 4}, {"dtype", "f32"}, {"target_dtype", "i32"}, {"nll", 1}, {"gradient", "separate"}});
  void* const addresses[] = {over_logits, targets, &loss, lse, nll, over_logits};
  ASSERT_EQ(tunesmith_run(engine_, problem.get(), addresses, 6, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  const NamedProblem backward("cross_entropy_backward",
                              {{"rows", 3}, {"cols", 4}, {"dtype", "f32"}, {"target_dtype", "i32"}, {"nll", 1}});
  void* const again[] = {const_cast<float*>(logits), targets, lse, &one, nll, from_lse};
  ASSERT_EQ(tunesmith_run(engine_, backward.get(), again, 6, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  double sum_of_losses = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(logits[r * cols + c]));
    EXPECT_NEAR(lse[r], std::log(sum), 1e-6);
    const bool counts = targets[r] >= 0;
    if (counts) sum_of_losses += std::log(sum) - logits[r * cols + static_cast<std::size_t>(targets[r])];
    for (std::size_t c = 0; c < cols; ++c) {
      const double p = std::exp(static_cast<double>(logits[r * cols + c])) / sum;
      const double expected = counts ? (p - (static_cast<std::size_t>(targets[r]) == c ? 1 : 0)) / 2 : 0;
      EXPECT_NEAR(over_logits[r * cols + c], expected, 1e-6);
      EXPECT_NEAR(from_lse[r * cols + c], expected, 1e-6);
    }
  }
  EXPECT_NEAR(loss, sum_of_losses / 2, 1e-6);

  // A class may be ignored: zero is zero.
  targets[1] = 0;
  problem.set("ignore_index", 0);
  problem.set("reduction", "sum");
  problem.set("gradient", "none");
  void* const forward[] = {const_cast<float*>(logits), targets, &loss, lse, nll};
  ASSERT_EQ(tunesmith_run(engine_, problem.get(), forward, 5, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(loss, static_cast<double>(lse[0]) - 3, 1e-6);
}

TEST_F(CApi, AttentionInOneShotAndByName) {
  // Two query heads share a key head; a query sees the keys up to its place.
  constexpr std::size_t queries = 2, heads = 2, width = 8;
  alignas(16) float q[queries * heads * width] = {}, k[queries * width] = {}, v[queries * width], o[queries * heads * width];
  float lse[heads * queries] = {};
  for (std::size_t i = 0; i < queries * width; ++i) v[i] = static_cast<float>(i);
  const auto expect_means = [&] {
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t c = 0; c < width; ++c) {
        EXPECT_NEAR(o[h * width + c], v[c], 1e-6);
        EXPECT_NEAR(o[(heads + h) * width + c], (v[c] + v[width + c]) / 2, 1e-6);
      }
    for (std::size_t h = 0; h < heads; ++h) {
      EXPECT_NEAR(lse[h * queries], 0, 1e-6);
      EXPECT_NEAR(lse[h * queries + 1], std::log(2), 1e-6);
    }
  };
  const NamedProblem problem(
      "attention", {{"heads", 2}, {"kv_heads", 1}, {"seq_q", 2}, {"head_dim", 8}, {"dtype", "f32"}, {"causal", "top-left"}});
  void* const in_order[5] = {q, k, v, o, lse};
  ASSERT_EQ(tunesmith_run(engine_, problem.get(), in_order, 5, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_means();

  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, problem.get(), nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  std::fill(std::begin(o), std::end(o), -1.0f);
  const char* const names[] = {"o", "v", "k", "q"};  // lse is optional
  void* const by_name[] = {o, v, k, q};
  ASSERT_EQ(tunesmith_plan_launch_named(plan, names, by_name, 4, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_means();
  EXPECT_EQ(tunesmith_plan_launch_named(plan, names, by_name, 3, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"'q' is a null pointer"});
  const char* const wrong[] = {"out", "v", "k", "q"};
  EXPECT_EQ(tunesmith_plan_launch_named(plan, wrong, by_name, 4, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"no array 'out'", "allowed: q, k, v, o, lse"});
  EXPECT_EQ(tunesmith_plan_launch_named(plan, nullptr, by_name, 4, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"names is NULL"});
  const char* const twice[] = {"o", "v", "k", "q", "k"};
  void* const different[] = {o, v, k, q, q};
  EXPECT_EQ(tunesmith_plan_launch_named(plan, twice, different, 5, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"array 'k' is given twice, with different addresses"});
  void* const equal[] = {o, v, k, q, k};
  EXPECT_EQ(tunesmith_plan_launch_named(plan, twice, equal, 5, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  tunesmith_plan_destroy(plan);
}

// What a mask_mod leaves of tiles, found out by one plan and read by another.
TEST_F(CApi, TilesOfAMaskAreReused) {
  constexpr std::size_t seq = 70, width = 8;
  std::vector<float> zeros(seq * width), v(seq * width), o(seq * width, -1);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / width);  // the key's number
  tunesmith_problem* problem = nullptr;
  ASSERT_EQ(tunesmith_problem_create("attention", &problem), TUNESMITH_OK);
  tunesmith_problem_set_int(problem, "seq_q", seq);
  tunesmith_problem_set_int(problem, "head_dim", width);
  tunesmith_problem_set_string(problem, "dtype", "f32");
  tunesmith_problem_set_string(problem, "mask_mod",
                               "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return k >= 64; }");
  tunesmith_problem_set_string(problem, "block_mask", "write");
  const tunesmith_array* arrays = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(tunesmith_problem_arrays(problem, &arrays, &count), TUNESMITH_OK) << tunesmith_last_error();
  ASSERT_EQ(count, 6u);
  EXPECT_STREQ(arrays[3].name, "block_mask");
  EXPECT_EQ(arrays[3].bytes, 2 * 2 * 4);
  std::vector<std::int32_t> tiles(4, -1);
  for (const char* way : {"write", "read"}) {
    tunesmith_problem_set_string(problem, "block_mask", way);
    tunesmith_plan* plan = nullptr;
    ASSERT_EQ(tunesmith_prepare(engine_, problem, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
        << tunesmith_last_error() << tunesmith_last_error_log();
    std::fill(o.begin(), o.end(), -1.0f);
    void* const in_order[] = {zeros.data(), zeros.data(), v.data(), tiles.data(), o.data(), nullptr};
    ASSERT_EQ(tunesmith_plan_launch(plan, in_order, std::size(in_order), nullptr), TUNESMITH_OK) << tunesmith_last_error();
    EXPECT_EQ(tiles, (std::vector<std::int32_t>{2, -2, 2, -2})) << "all of the second tile is kept, and of what is padding";
    for (const float value : o) EXPECT_NEAR(value, 66.5, 1e-4);
    tunesmith_plan_destroy(plan);
  }
  tunesmith_problem_destroy(problem);
}

}  // namespace
