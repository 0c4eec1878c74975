#include "tests/templates/attention_backward/score_mod_problem.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/half.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith::test {

Problem backward_with_texts(const std::string& fields, const std::vector<std::pair<std::string, std::string>>& texts) {
  Problem problem{"attention_backward", parse_fields(fields, "problem")};
  for (const auto& [field, text] : texts) problem.fields.set(field, text);
  return find_op("attention_backward").normalize(problem);
}

std::string score_mod_of(const std::string& body) {
  return "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {\n" + body + "\n}\n";
}

Problem ScoreModProblem::problem() const {
  return backward_with_texts(
      std::string("heads=4,kv_heads=2,seq_q=7,seq_kv=9,head_dim=16,head_dim_v=8,scale=0.3,dtype=f32") + options,
      {{"score_mod", score_mod}});
}

double ScoreModProblem::loss(Numbers& n) const {
  const auto at = [](std::int64_t position, std::int64_t head, std::int64_t column, std::int64_t count, std::int64_t width) {
    return static_cast<std::size_t>((position * count + head) * width + column);
  };
  double loss = 0;
  const std::vector<double>&all_q = n["q"], &all_k = n["k"], &all_v = n["v"], &dout = n["dout"];
  std::vector<double>&o = n["o"], &lse = n["lse"];
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t g = h / (heads / kv_heads);
      std::vector<double> scores;
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (std::int64_t c = 0; c < d; ++c) score += all_q[at(i, h, c, heads, d)] * all_k[at(j, g, c, kv_heads, d)];
        score *= 0.3;
        if (softcap != 0) score = softcap * std::tanh(score / softcap);
        score = exact(score, h, i, j, n);
        if (alibi)
          score -= n["alibi_slopes"][static_cast<std::size_t>(h)] * std::fabs(static_cast<double>(i + keys - queries - j));
        if (causal && j > i + keys - queries) score = -INFINITY;
        scores.push_back(score);
        sum += std::exp(score);
      }
      lse[static_cast<std::size_t>(h * queries + i)] = std::log(sum);
      for (std::int64_t c = 0; c < d_v; ++c) {
        double output = 0;
        for (std::int64_t j = 0; j < keys; ++j)
          output += std::exp(scores[static_cast<std::size_t>(j)]) / sum * all_v[at(j, g, c, kv_heads, d_v)];
        o[at(i, h, c, heads, d_v)] = output;
        loss += output * dout[at(i, h, c, heads, d_v)];
      }
    }
  return loss;
}

double compare_with_differences(const ScoreModProblem& small, const Problem& problem, const Executable& executable,
                                const std::map<std::string, std::string>& gradients) {
  const AttentionArraysOnHost arrays(problem, 11);
  Numbers numbers;
  for (const HostArray& array : arrays.all())
    if (is_float(array.info.dtype))
      for (std::int64_t i = 0; i < array.info.elements(); ++i)
        numbers[array.info.name].push_back(arrays.real(array.info.name, i));
  small.loss(numbers);
  for (const char* name : {"o", "lse"})
    for (std::size_t i = 0; i < numbers[name].size(); ++i)
      write_element(DType::f32, arrays[name].data, static_cast<std::int64_t>(i), static_cast<float>(numbers[name][i]));
  std::vector<void*> addresses;
  for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
  executable.enqueue(addresses, nullptr);
  double largest = 0;
  for (const auto& [gradient, of] : gradients)
    for (std::size_t i = 0; i < numbers[of].size(); ++i) {
      constexpr double step = 1e-6;
      double& number = numbers[of][i];
      const double middle = number;
      number = middle + step;
      const double above = small.loss(numbers);
      number = middle - step;
      const double below = small.loss(numbers);
      number = middle;
      const double expected = (above - below) / (2 * step);
      largest = std::max(largest, std::fabs(expected));
      // Sums of at most 64 terms of magnitudes below 4 in float32.
      EXPECT_NEAR(arrays.real(gradient, static_cast<std::int64_t>(i)), expected, 2e-5) << gradient << " " << i;
    }
  return largest;
}

}  // namespace tunesmith::test
