// The reference of attention's backward pass agrees with central differences of a forward pass in float64 that shares no
// code with it but the dropout mask.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/half.h"
#include "templates/attention/reference/dropout.h"
#include "tests/support/cases.h"

namespace tunesmith {
namespace {

/// Arrays of one batch entry in layout bshd as float64, by name.
using Numbers = std::map<std::string, std::vector<double>>;

/// A small dense problem with everything that has a gradient.
struct Problem64 {
  std::int64_t heads = 4, kv_heads = 2, queries = 7, keys = 9, d = 16, d_v = 8;
  double scale = 0.3, softcap = 0, dropout = 0;
  bool causal = false;  ///< bottom-right
  bool alibi = false, sinks = false, dlse = false;

  std::string fields() const {
    std::string text = "heads=4,kv_heads=2,seq_q=7,seq_kv=9,head_dim=16,head_dim_v=8,scale=0.3,dtype=f32";
    if (softcap != 0) text += ",softcap=" + std::to_string(softcap);
    if (dropout != 0) text += ",dropout=" + std::to_string(dropout) + ",dropout_seed=3";
    if (causal) text += ",causal=bottom-right";
    if (alibi) text += ",alibi=1,dslopes=1";
    if (sinks) text += ",sinks=1,dsinks=1";
    if (dlse) text += ",dlse=1";
    return text;
  }

  /// Writes o and lse, and returns sum(o * dout) + sum(lse * dlse).
  double loss(Numbers& n) const {
    attention::Settings settings;
    settings.dropout = dropout;
    settings.dropout_seed = 3;
    const attention::DropoutMask mask(settings, {});
    double loss = 0;
    const std::vector<double>&q = n["q"], &k = n["k"], &v = n["v"], &dout = n["dout"];
    std::vector<double>&o = n["o"], &all_lse = n["lse"];
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t g = h / (heads / kv_heads), row = h * queries + i;
        std::vector<double> scores;
        double sum = sinks ? std::exp(n["sinks"][static_cast<std::size_t>(h)]) : 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (std::int64_t c = 0; c < d; ++c) score += q[at(i, h, c, heads, d)] * k[at(j, g, c, kv_heads, d)];
          score *= scale;
          if (softcap != 0) score = softcap * std::tanh(score / softcap);
          if (alibi)
            score -= n["alibi_slopes"][static_cast<std::size_t>(h)] * std::fabs(static_cast<double>(i + keys - queries - j));
          if (causal && j > i + keys - queries) score = -INFINITY;
          scores.push_back(score);
          sum += std::exp(score);
        }
        const double lse = std::log(sum);
        all_lse[static_cast<std::size_t>(row)] = lse;
        if (dlse) loss += lse * n["dlse"][static_cast<std::size_t>(row)];
        for (std::int64_t c = 0; c < d_v; ++c) {
          double output = 0;
          for (std::int64_t j = 0; j < keys; ++j)
            output += mask.factor(0, h, i, j) * std::exp(scores[static_cast<std::size_t>(j)] - lse) *
                      v[at(j, g, c, kv_heads, d_v)];
          o[at(i, h, c, heads, d_v)] = output;
          loss += output * dout[at(i, h, c, heads, d_v)];
        }
      }
    return loss;
  }

  /// Index of an element of an array with the given heads and columns.
  static std::size_t at(std::int64_t position, std::int64_t head, std::int64_t column, std::int64_t count,
                        std::int64_t width) {
    return static_cast<std::size_t>((position * count + head) * width + column);
  }
};

/// The test's name for CTest: without this, GoogleTest prints the bytes of the object, padding included.
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest calls it
void PrintTo(const Problem64& problem, std::ostream* out) { *out << problem.fields(); }

/// The name of a test: "2_softcap".
std::string test_name(const testing::TestParamInfo<Problem64>& info) {
  std::string name = std::to_string(info.index);
  const auto add = [&](bool present, const char* option) {
    if (present) name += std::string("_") + option;
  };
  add(info.param.causal, "causal");
  add(info.param.softcap != 0, "softcap");
  add(info.param.alibi, "alibi");
  add(info.param.sinks, "sinks");
  add(info.param.dlse, "dlse");
  add(info.param.dropout != 0, "dropout");
  return name;
}

class FiniteDifferences : public testing::TestWithParam<Problem64> {};

TEST_P(FiniteDifferences, AreTheReference) {
  const Problem64 small = GetParam();
  const Problem problem = test::normalized("attention_backward", small.fields());
  const ParsedProblemPtr parsed = find_op("attention_backward").parse(problem);
  std::vector<std::vector<std::byte>> memory;
  std::vector<HostArray> arrays;
  for (const ArrayInfo& info : parsed->arrays()) {
    memory.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
    arrays.push_back({info, memory.back().data()});
  }
  parsed->fill_inputs(11, InputKind::random, arrays);
  Numbers numbers;
  for (const HostArray& array : arrays)
    for (std::int64_t i = 0; i < array.info.elements(); ++i)
      numbers[array.info.name].push_back(read_element(DType::f32, array.data, i));
  small.loss(numbers);
  const std::map<std::string, std::string> gradients{
      {"dq", "q"}, {"dk", "k"}, {"dv", "v"}, {"dsinks", "sinks"}, {"dslopes", "alibi_slopes"}};
  constexpr double step = 1e-5;
  HostArray* last = nullptr;
  for (HostArray& array : arrays) {
    if (array.info.name == "o" || array.info.name == "lse")
      for (std::int64_t i = 0; i < array.info.elements(); ++i)
        write_element(DType::f32, array.data, i, static_cast<float>(numbers[array.info.name][static_cast<std::size_t>(i)]));
    const auto of = gradients.find(array.info.name);
    if (of == gradients.end()) continue;
    last = &array;
    for (std::size_t i = 0; i < numbers[of->second].size(); ++i) {
      double& number = numbers[of->second][i];
      const double middle = number;
      number = middle + step;
      const double above = small.loss(numbers);
      number = middle - step;
      const double below = small.loss(numbers);
      number = middle;
      write_element(DType::f32, array.data, static_cast<std::int64_t>(i), static_cast<float>((above - below) / (2 * step)));
    }
  }
  ASSERT_NE(last, nullptr);
  const CheckResult result = parsed->check(arrays, 1 << 30);
  EXPECT_TRUE(result.passed) << problem.text() << ": " << result.first_failure;
  EXPECT_EQ(result.checked_rows, result.total_rows);
  // A gradient that is off by a hundredth is detected in every array; terms of slopes cancel.
  for (HostArray& array : arrays) {
    if (!array.info.output) continue;
    const double right = read_element(DType::f32, array.data, 0);
    ASSERT_NE(right, 0) << array.info.name;
    write_element(DType::f32, array.data, 0, static_cast<float>(right * 1.01));
    const CheckResult wrong = parsed->check(arrays, 1 << 30);
    EXPECT_FALSE(wrong.passed) << array.info.name;
    EXPECT_EQ(wrong.first_failure.rfind(array.info.name + "[", 0), 0U) << wrong.first_failure;
    write_element(DType::f32, array.data, 0, static_cast<float>(right));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, FiniteDifferences,
    testing::Values(Problem64{}, Problem64{.causal = true}, Problem64{.softcap = 1.5}, Problem64{.alibi = true},
                    Problem64{.sinks = true}, Problem64{.dlse = true}, Problem64{.dropout = 0.4},
                    Problem64{.softcap = 2, .dropout = 0.2, .causal = true, .alibi = true, .sinks = true, .dlse = true}),
    test_name);

}  // namespace
}  // namespace tunesmith
