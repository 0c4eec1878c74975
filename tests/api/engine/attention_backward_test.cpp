// Attention's backward pass through the typed interface: one call and a plan give the same bits, addresses enable options,
// and gradients add up.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/api/engine/host_options.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

constexpr std::int64_t heads = 2, queries = 9, keys = 12, head_dim = 16;

std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);  // NOLINT(bugprone-random-generator-seed): every run has the same numbers
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

class AttentionBackwardEngine : public testing::Test {
 protected:
  AttentionBackwardEngine() {
    problem_.dtype = DType::f32;
    engine_.run(
        static_cast<const AttentionProblem&>(problem_),
        {.q = q_.data(), .k = k_.data(), .v = v_.data(), .sinks = sinks_.data(), .o = o_.data(), .lse = lse_.data()});
  }

  AttentionBackwardArrays arrays() {
    return {.q = q_.data(),
            .k = k_.data(),
            .v = v_.data(),
            .sinks = sinks_.data(),
            .o = o_.data(),
            .lse = lse_.data(),
            .dout = dout_.data(),
            .dq = dq_.data(),
            .dk = dk_.data(),
            .dv = dv_.data()};
  }

  Engine engine_{test::host_engine_options()};
  AttentionBackwardProblem problem_{{.heads = heads, .seq_q = queries, .seq_kv = keys, .head_dim = head_dim}};
  std::vector<float> q_ = random_numbers(heads * queries * head_dim, 1), k_ = random_numbers(heads * keys * head_dim, 2),
                     v_ = random_numbers(heads * keys * head_dim, 3), dout_ = random_numbers(heads * queries * head_dim, 4),
                     sinks_ = random_numbers(heads, 5), o_ = q_, lse_ = std::vector<float>(heads * queries), dq_ = q_,
                     dk_ = k_, dv_ = v_, dsinks_ = sinks_;
};

TEST_F(AttentionBackwardEngine, OneCallAndAPlanGiveTheSameBits) {
  engine_.run(problem_, arrays());
  const std::vector<float> dq = dq_, dk = dk_, dv = dv_;
  for (std::vector<float>* gradient : {&dq_, &dk_, &dv_}) std::fill(gradient->begin(), gradient->end(), NAN);
  AttentionBackwardProblem with_sinks = problem_;
  with_sinks.sinks = true;
  const Plan plan = engine_.prepare(with_sinks);
  plan.launch({{"q", q_.data()},
               {"k", k_.data()},
               {"v", v_.data()},
               {"sinks", sinks_.data()},
               {"o", o_.data()},
               {"lse", lse_.data()},
               {"dout", dout_.data()},
               {"dq", dq_.data()},
               {"dk", dk_.data()},
               {"dv", dv_.data()}});
  EXPECT_EQ(dq_, dq);
  EXPECT_EQ(dk_, dk);
  EXPECT_EQ(dv_, dv);
  for (const std::vector<float>& gradient : {dq, dk, dv})
    for (const float element : gradient) EXPECT_TRUE(std::isfinite(element));
}

// The gradient of the sinks equals a difference quotient of the forward pass.
TEST_F(AttentionBackwardEngine, AnAddressEnablesItsGradient) {
  AttentionBackwardArrays with_sinks = arrays();
  with_sinks.dsinks = dsinks_.data();
  engine_.run(problem_, with_sinks);
  const auto loss = [&](float change) {
    std::vector<float> sinks = sinks_, o = o_, lse = lse_;
    sinks[1] += change;
    engine_.run(static_cast<const AttentionProblem&>(problem_),
                {.q = q_.data(), .k = k_.data(), .v = v_.data(), .sinks = sinks.data(), .o = o.data(), .lse = lse.data()});
    double sum = 0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += static_cast<double>(o[i]) * static_cast<double>(dout_[i]);
    return sum;
  };
  // The quotient is off by step^2 / 6 of the third derivative of 9 rows, at most 1/8 of |o . dout| (about 4) each: 1e-4.
  // Roundings of the 144 elements of o add 144 * 2^-23 / (2 * step) = 9e-4 if all have the same sign, and the rounding of
  // dsinks is far smaller: 1e-3 with a factor of 2.
  constexpr float step = 0.01f;
  EXPECT_NEAR(dsinks_[1], (loss(step) - loss(-step)) / (2.0 * static_cast<double>(step)), 2e-3);
  EXPECT_GT(std::fabs(dsinks_[1]), 0.02f);
}

TEST_F(AttentionBackwardEngine, GradientsAddUp) {
  engine_.run(problem_, arrays());
  const std::vector<float> dq = dq_, dk = dk_, dv = dv_;
  AttentionBackwardProblem adding = problem_;
  adding.accumulate = true;
  engine_.run(adding, arrays());
  for (const auto& [twice, once] : {std::pair{&dq_, &dq}, {&dk_, &dk}, {&dv_, &dv}})
    for (std::size_t i = 0; i < once->size(); ++i) EXPECT_EQ((*twice)[i], 2 * (*once)[i]) << i;
}

// All options with an array at once: 33 of them.
TEST_F(AttentionBackwardEngine, ACallMayHaveMoreThan32Arrays) {
  constexpr std::size_t user_arrays = 8;
  std::string declarations, sum;
  AttentionBackwardProblem problem = problem_;
  for (std::size_t i = 0; i < user_arrays; ++i) {
    const std::string name = "bias" + std::to_string(i);
    declarations += (i == 0 ? "// aux: " : "; ") + name + ":f32[heads]";
    sum += " + aux." + name + "[h]";
    problem.daux.add(name);
  }
  problem.score_mod = declarations + "\n__device__ float score_mod(float score, int, int h, int, int, const Aux& aux) {\n" +
                      "  return score" + sum + ";\n}\n";
  problem.total_q = queries;
  problem.total_kv = keys;
  problem.dropout = 0.25;
  const std::int32_t starts_q[] = {0, queries}, starts_kv[] = {0, keys};
  const std::int64_t rng_state[] = {7, 8};
  const std::vector<float> slopes(heads, 0.01f), dlse(heads * queries, 0.5f);
  std::vector<float> dslopes(heads), bias(heads, 0.1f), dbias(user_arrays * heads);
  AttentionBackwardArrays all = arrays();
  all.alibi_slopes = slopes.data();
  all.cu_seqlens_q = starts_q;
  all.cu_seqlens_kv = starts_kv;
  all.rng_state = rng_state;
  all.dlse = dlse.data();
  all.dsinks = dsinks_.data();
  all.dslopes = dslopes.data();
  for (std::size_t i = 0; i < user_arrays; ++i) {
    all.aux[i] = bias.data();
    all.daux[i] = dbias.data() + i * heads;
  }
  engine_.run(problem, all);
  // Equal arrays have equal gradients: by a shift of all scores, and not 0 because of dlse and the sinks. They are sums of
  // 108 terms in any order, with roundings of 10 * 2^-24 each; few have the same sign.
  for (std::size_t i = 0; i < dbias.size(); ++i) {
    EXPECT_NEAR(dbias[i], dbias[i % heads], 2e-5) << i;
    EXPECT_GT(std::fabs(dbias[i]), 1e-3f) << i;
  }
}

}  // namespace
}  // namespace tunesmith
