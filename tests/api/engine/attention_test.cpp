// Attention through the typed API, with real kernels on the host executor: tests the meaning of every field and array. Other
// tests cover the kernels' numerics.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "api/dispatch/plan_table.h"
#include "api/engine/parts.h"
#include "tests/api/engine/host_options.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

/// Returns ordinary values.
std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(7 * i + 1) + 0.3 * seed) * 2);
  return values;
}

/// Computes one query with the formulas of attention.h in double.
struct Query {
  const float* q;
  std::function<const float*(std::int64_t)> k, v;  ///< of a key
  std::int64_t keys, place;
  double slope = 0;
  const float* sink = nullptr;
};

struct Answer {
  std::vector<double> o;
  double lse;
};

Answer answer(const AttentionProblem& problem, const Query& query) {
  const std::int64_t width = problem.head_dim_v.value_or(problem.head_dim);
  const double scale = problem.scale.value_or(1 / std::sqrt(static_cast<double>(problem.head_dim)));
  Answer out{std::vector<double>(static_cast<std::size_t>(width)), 0};
  double sum = query.sink == nullptr ? 0 : std::exp(static_cast<double>(*query.sink));
  for (std::int64_t j = 0; j < query.keys; ++j) {
    if (problem.causal != Causal::none && j > query.place) continue;
    if (problem.window_left && j < query.place - *problem.window_left) continue;
    double s = 0;
    for (std::int64_t d = 0; d < problem.head_dim; ++d) s += static_cast<double>(query.q[d]) * query.k(j)[d];
    s *= scale;
    if (problem.softcap != 0) s = problem.softcap * std::tanh(s / problem.softcap);
    s -= query.slope * static_cast<double>(std::abs(query.place - j));
    sum += std::exp(s);
    for (std::int64_t c = 0; c < width; ++c) out.o[static_cast<std::size_t>(c)] += std::exp(s) * query.v(j)[c];
  }
  for (double& value : out.o) value = sum > 0 ? value / sum : 0;
  out.lse = std::log(sum);
  return out;
}

void expect_answer(const Answer& expected, const float* o, float lse, const std::string& where) {
  EXPECT_NEAR(lse, expected.lse, 4e-6 * (1 + std::fabs(expected.lse))) << where;
  for (std::size_t c = 0; c < expected.o.size(); ++c) EXPECT_NEAR(o[c], expected.o[c], 1e-5) << where << ", " << c;
}

std::string place(std::int64_t b, std::int64_t h, std::int64_t i) {
  return "batch " + std::to_string(b) + ", head " + std::to_string(h) + ", query " + std::to_string(i);
}

class Attention : public testing::Test {
 protected:
  Attention() {
    problem_.batch = batch;
    problem_.heads = heads;
    problem_.kv_heads = kv_heads;
    problem_.seq_q = queries;
    problem_.seq_kv = keys;
    problem_.head_dim = width;
    problem_.head_dim_v = width_v;
    problem_.dtype = DType::f32;
    problem_.causal = Causal::bottom_right;
  }

  AttentionArrays arrays() { return {.q = q_.data(), .k = k_.data(), .v = v_.data(), .o = o_.data(), .lse = lse_.data()}; }
  void run(const AttentionArrays& given) { engine_.run(problem_, given); }

  /// Checks the results of contiguous arrays in layout bshd.
  void expect_right(const AttentionArrays& given) {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t g = h / (heads / kv_heads), row = (b * queries + i) * heads + h;
          Query query{
              &q_[static_cast<std::size_t>(row * width)],
              [&](std::int64_t j) { return &k_[static_cast<std::size_t>(((b * keys + j) * kv_heads + g) * width)]; },
              [&](std::int64_t j) { return &v_[static_cast<std::size_t>(((b * keys + j) * kv_heads + g) * width_v)]; }, keys,
              i + keys - queries};
          if (given.alibi_slopes != nullptr) query.slope = given.alibi_slopes[h];
          if (given.sinks != nullptr) query.sink = given.sinks + h;
          expect_answer(answer(problem_, query), &o_[static_cast<std::size_t>(row * width_v)],
                        lse_[static_cast<std::size_t>((b * heads + h) * queries + i)], place(b, h, i));
        }
  }

  static constexpr std::int64_t batch = 2, heads = 4, kv_heads = 2, queries = 5, keys = 7, width = 8, width_v = 16;
  Engine engine_{test::host_engine_options()};
  AttentionProblem problem_;
  std::vector<float> q_ = numbers(batch * queries * heads * width, 1), k_ = numbers(batch * keys * kv_heads * width, 2),
                     v_ = numbers(batch * keys * kv_heads * width_v, 3),
                     o_ = std::vector<float>(static_cast<std::size_t>(batch * queries * heads * width_v), -1),
                     lse_ = std::vector<float>(static_cast<std::size_t>(batch * heads * queries), -1);
};

TEST_F(Attention, OneShotCallUsesThePlan) {
  run(arrays());
  expect_right(arrays());
  const std::vector<float> o = o_, lse = lse_;
  const Plan plan = engine_.prepare(problem_);
  o_.assign(o_.size(), -1);
  lse_.assign(lse_.size(), -1);
  void* given[] = {q_.data(), k_.data(), v_.data(), o_.data(), lse_.data()};
  plan.launch(given);
  EXPECT_EQ(o_, o);
  EXPECT_EQ(lse_, lse);

  // lse is optional and does not require another plan.
  o_.assign(o_.size(), -1);
  lse_.assign(lse_.size(), -1);
  run({.q = q_.data(), .k = k_.data(), .v = v_.data(), .o = o_.data()});
  EXPECT_EQ(o_, o);
  given[3] = o_.data();
  given[4] = nullptr;
  o_.assign(o_.size(), -1);
  plan.launch(given);
  EXPECT_EQ(o_, o);
  EXPECT_EQ(lse_, std::vector<float>(lse_.size(), -1));
  EXPECT_EQ(engine_.parts().plans->plans.size(), 1u);
}

TEST_F(Attention, LayoutsAndStrides) {
  run(arrays());
  expect_right(arrays());
  const std::vector<float> o = o_;

  // Layout bhsd: the rows of each head are contiguous.
  const auto heads_first = [](const std::vector<float>& from, std::int64_t count, std::int64_t positions, std::int64_t row) {
    std::vector<float> to(from.size());
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t s = 0; s < positions; ++s)
        for (std::int64_t h = 0; h < count; ++h)
          std::copy_n(from.begin() + ((b * positions + s) * count + h) * row, row,
                      to.begin() + ((b * count + h) * positions + s) * row);
    return to;
  };
  const std::vector<float> q = heads_first(q_, heads, queries, width), k = heads_first(k_, kv_heads, keys, width),
                           v = heads_first(v_, kv_heads, keys, width_v);
  AttentionProblem other = problem_;
  other.layout = AttentionLayout::bhsd;
  o_.assign(o_.size(), -1);
  engine_.run(other, {.q = q.data(), .k = k.data(), .v = v.data(), .o = o_.data()});
  EXPECT_EQ(o_, heads_first(o, heads, queries, width_v));

  // The same memory as layout bshd with strides.
  other.layout = AttentionLayout::bshd;
  const auto strides = [](std::int64_t count, std::int64_t positions, std::int64_t row) {
    return AttentionArrayStrides{count * positions * row, row, positions * row};
  };
  other.q_strides = strides(heads, queries, width);
  other.k_strides = strides(kv_heads, keys, width);
  other.v_strides = strides(kv_heads, keys, width_v);
  o_.assign(o_.size(), -1);
  engine_.run(other, {.q = q.data(), .k = k.data(), .v = v.data(), .o = o_.data()});
  EXPECT_EQ(o_, o);
}

TEST_F(Attention, AddressesDetermineTheAlignment) {
  std::vector<float> shifted(q_.size() + 1);
  std::copy(q_.begin(), q_.end(), shifted.begin() + 1);
  AttentionArrays given = arrays();
  given.q = shifted.data() + 1;
  run(given);
  expect_right(arrays());
}

TEST_F(Attention, NonNullArraysEnableTheirOptions) {
  const std::vector<float> slopes{0.5f, 0.25f, 0.125f, 1}, sinks{1, -2, 0.5f, 3};
  problem_.softcap = 3;
  problem_.window_left = 3;
  problem_.scale = 0.75;
  AttentionArrays given = arrays();
  given.alibi_slopes = slopes.data();
  given.sinks = sinks.data();
  run(given);
  expect_right(given);
}

TEST_F(Attention, PackedSequences) {
  // Sequences with 2, 0 and 5 queries and with 4, 3 and 5 keys, in the same memory.
  const std::vector<std::int32_t> starts_q{0, 2, 2, 7}, starts_kv{0, 4, 7, 12};
  problem_.batch = 3;
  problem_.seq_q = 5;
  problem_.seq_kv = 5;
  problem_.total_q = 7;
  problem_.total_kv = 12;
  AttentionArrays given = arrays();
  given.cu_seqlens_q = starts_q.data();
  given.cu_seqlens_kv = starts_kv.data();
  run(given);
  for (std::size_t b = 0; b < 3; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t at = starts_q[b]; at < starts_q[b + 1]; ++at) {
        const std::int64_t g = h / (heads / kv_heads), length = starts_kv[b + 1] - starts_kv[b], i = at - starts_q[b];
        const Query query{
            &q_[static_cast<std::size_t>((at * heads + h) * width)],
            [&](std::int64_t j) { return &k_[static_cast<std::size_t>(((starts_kv[b] + j) * kv_heads + g) * width)]; },
            [&](std::int64_t j) { return &v_[static_cast<std::size_t>(((starts_kv[b] + j) * kv_heads + g) * width_v)]; },
            length, i + length - (starts_q[b + 1] - starts_q[b])};
        expect_answer(answer(problem_, query), &o_[static_cast<std::size_t>((at * heads + h) * width_v)],
                      lse_[static_cast<std::size_t>(h * 7 + at)], place(static_cast<std::int64_t>(b), h, i));
      }
  EXPECT_EQ(o_[static_cast<std::size_t>(7 * heads * width_v)], -1);
}

// An empty KV cache: zero is zero, and memory behind the null pointers is not read.
TEST_F(Attention, WithoutKeysOutputsAreZero) {
  problem_.seq_kv = 0;
  AttentionArrays given = arrays();
  given.k = given.v = nullptr;
  run(given);
  EXPECT_EQ(o_, std::vector<float>(o_.size(), 0));
  EXPECT_EQ(lse_, std::vector<float>(lse_.size(), -std::numeric_limits<float>::infinity()));
}

TEST_F(Attention, StridesOfZeroBroadcast) {
  // Every batch entry reads the first one's keys and values.
  problem_.k_strides.batch = problem_.v_strides.batch = 0;
  run(arrays());
  const std::vector<float> o = o_, lse = lse_;
  const auto repeat_first = [](std::vector<float>& array) {
    const auto half = static_cast<std::ptrdiff_t>(array.size() / batch);
    std::copy_n(array.begin(), half, array.begin() + half);
  };
  repeat_first(k_);
  repeat_first(v_);
  problem_.k_strides = problem_.v_strides = {};
  run(arrays());
  expect_right(arrays());
  EXPECT_EQ(o_, o);
  EXPECT_EQ(lse_, lse);
}

TEST_F(Attention, WithoutQueriesNothingIsWritten) {
  problem_.batch = 0;
  run({});
  EXPECT_EQ(o_[0], -1);
}

}  // namespace
}  // namespace tunesmith
