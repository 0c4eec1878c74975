// User functions through the C API: the problem, the source and the results equal C++'s. Runs on the host executor.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/api/c/host_engine.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::NamedProblem;

class AttentionModsC : public testing::Test {
 protected:
  ~AttentionModsC() override {
    tunesmith_plan_destroy(plan_);
    tunesmith_engine_destroy(engine_);
  }

  tunesmith_status prepare(const NamedProblem& problem) {
    tunesmith_plan_destroy(plan_);
    plan_ = nullptr;
    return tunesmith_prepare(engine_, problem.get(), nullptr, TUNESMITH_MODE_OFF, &plan_);
  }
  void expect_rejected(const NamedProblem& problem, const std::string& words,
                       tunesmith_status status = TUNESMITH_INVALID_ARGUMENT) {
    EXPECT_EQ(prepare(problem), status) << words;
    EXPECT_NE(std::string(tunesmith_last_error()).find(words), std::string::npos) << tunesmith_last_error();
  }

  tunesmith_engine* engine_ = test::host_engine();
  tunesmith_plan* plan_ = nullptr;
};

// ALiBi as a function, whose array has a name, against float64.
TEST_F(AttentionModsC, ArraysOfTheSourceHaveNames) {
  const std::string text = test::mod_example("alibi");
  const Problem problem = test::modified("batch=2,heads=4,seq_q=37,seq_kv=53,head_dim=16,dtype=f32", {{"score_mod", text}});
  const AttentionArraysOnHost on_host(problem, 5);
  NamedProblem named(
      "attention",
      {{"batch", 2}, {"heads", 4}, {"seq_q", 37}, {"seq_kv", 53}, {"head_dim", 16}, {"dtype", "f32"}, {"score_mod", text}});
  const auto alibi = [&](std::int64_t shift) {
    return [&on_host, shift](double score, std::int64_t, std::int64_t h, std::int64_t q, std::int64_t k) {
      return score - on_host.real("slopes", h) * static_cast<double>(std::abs(q + shift - k));
    };
  };
  const auto launch = [&] {
    ASSERT_EQ(prepare(named), TUNESMITH_OK) << tunesmith_last_error() << tunesmith_last_error_log();
    std::size_t count = 0;
    const tunesmith_array* const arrays = tunesmith_plan_arrays(plan_, &count);
    std::vector<const char*> names;
    std::vector<void*> addresses;
    for (std::size_t i = 0; i < count; ++i) {
      names.push_back(arrays[i].name);
      addresses.push_back(on_host[arrays[i].name].data);
    }
    ASSERT_EQ(tunesmith_plan_launch_named(plan_, names.data(), addresses.data(), count, nullptr), TUNESMITH_OK)
        << tunesmith_last_error();
  };
  launch();
  EXPECT_STREQ(tunesmith_plan_problem(plan_), problem.text().c_str());
  EXPECT_LT(test::largest_difference(problem, on_host, alibi(53 - 37), {}), 1e-5);
  // The problem overrides a number that the source declares.
  named.set("aux", "offset:i32=-3");
  launch();
  EXPECT_LT(test::largest_difference(problem, on_host, alibi(-3), {}), 1e-5);
}

// Gradients of the source's arrays are outputs with names, too.
TEST_F(AttentionModsC, ArraysOfTheSourceHaveGradients) {
  const std::string text = test::mod_example("alibi");
  NamedProblem named("attention_backward", {{"heads", 4},
                                            {"seq_q", 7},
                                            {"seq_kv", 9},
                                            {"head_dim", 16},
                                            {"dtype", "f32"},
                                            {"score_mod", text},
                                            {"daux", "slopes"}});
  ASSERT_EQ(prepare(named), TUNESMITH_OK) << tunesmith_last_error() << tunesmith_last_error_log();
  const AttentionArraysOnHost on_host(
      Problem{"attention_backward",
              parse_fields(tunesmith_plan_problem(plan_) + std::string("attention_backward ").size(), "problem")},
      5);
  std::size_t count = 0;
  const tunesmith_array* const arrays = tunesmith_plan_arrays(plan_, &count);
  std::vector<const char*> names;
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(arrays[i].name);
    addresses.push_back(on_host[arrays[i].name].data);
  }
  EXPECT_STREQ(names.back(), "daux_slopes");
  EXPECT_EQ(tunesmith_plan_deterministic(plan_), 0);
  ASSERT_EQ(tunesmith_plan_launch_named(plan_, names.data(), addresses.data(), count, nullptr), TUNESMITH_OK)
      << tunesmith_last_error();
  for (std::int64_t h = 0; h < 4; ++h) EXPECT_NE(on_host.real("daux_slopes", h), 0) << h;
  named.set("deterministic", 1);
  ASSERT_EQ(prepare(named), TUNESMITH_OK) << tunesmith_last_error() << tunesmith_last_error_log();
  EXPECT_EQ(tunesmith_plan_deterministic(plan_), 1);
  EXPECT_EQ(tunesmith_plan_deterministic(nullptr), 0);
  named.set("daux", "offset");
  expect_rejected(named, "daux names 'offset', which is a number");
}

TEST_F(AttentionModsC, WhatIsWrongIsNamed) {
  NamedProblem problem("attention", {{"seq_q", 4}, {"head_dim", 8}, {"dtype", "f32"}, {"mask_mod", "// nothing"}});
  expect_rejected(problem, "mask_mod holds no function mask_mod");
  problem.set("mask_mod",
              "// aux: open:u8[seq_kv]\n__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n  return "
              "nowhere;\n}");
  expect_rejected(problem, "mask_mod.cu:3:", TUNESMITH_COMPILE_FAILED);
  EXPECT_STRNE(tunesmith_last_error_log(), "");
  problem.set("mask_mod",
              "// aux: open:u8[seq_kv]\n__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return "
              "aux.open[k] != 0; }");
  ASSERT_EQ(prepare(problem), TUNESMITH_OK) << tunesmith_last_error() << tunesmith_last_error_log();
  std::vector<float> zeros(32), o(32);
  const char* const names[] = {"q", "k", "v", "o"};
  void* const addresses[] = {zeros.data(), zeros.data(), zeros.data(), o.data()};
  EXPECT_EQ(tunesmith_plan_launch_named(plan_, names, addresses, 4, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("'open' is a null pointer"), std::string::npos)
      << tunesmith_last_error();
  problem.set("aux", "more:u8=3");
  expect_rejected(problem, "aux declares 'more:u8=3'; a number cannot be u8");
}

}  // namespace
}  // namespace tunesmith
