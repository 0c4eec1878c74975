#include "tests/templates/attention_backward/score_mod_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "templates/attention/source/modification.h"
#include "templates/attention_backward/settings.h"
#include "tests/templates/attention_backward/score_mod_problem.h"
#include "tuner/evaluate.h"

namespace tunesmith::test {

ScoreModValues score_mod_values(const Problem& problem, Device& device, const std::shared_ptr<Module>& module,
                                const std::vector<float>& scores) {
  const attention::Settings settings = attention::Settings::of(read_problem(AttentionBackwardProblem{}, problem.fields));
  const std::int64_t heads = settings.heads, points = static_cast<std::int64_t>(scores.size()) / heads, five = 5;
  std::vector<std::int32_t> places;
  for (std::int64_t h = 0; h < heads; ++h)
    places.insert(places.end(), {0, static_cast<std::int32_t>(h), 0, 0, static_cast<std::int32_t>(points)});
  ScoreModValues result{scores, scores};
  for (const bool derivatives : {false, true}) {
    std::vector<float>& found = derivatives ? result.derivatives : result.values;
    const std::vector<HostArray> arrays{
        {{.name = "places", .input = true, .dtype = DType::i32, .shape = {heads, five}, .strides = {five, 1}},
         reinterpret_cast<std::byte*>(places.data())},
        {{.name = "scores", .input = true, .output = true, .shape = {heads, points}, .strides = {points, 1}},
         reinterpret_cast<std::byte*>(found.data())}};
    const auto entry = derivatives ? attention::ModificationEntry::derivatives : attention::ModificationEntry::scores;
    evaluate_on(device, module)(attention::modification_plan(settings, entry, heads, points), arrays);
  }
  return result;
}

Problem tanh_problem() {
  return backward_with_texts("heads=2,seq_q=1,seq_kv=16,head_dim=8,dtype=f32",
                             {{"score_mod", score_mod_of("  return h == 0 ? fast_tanhf(score) : __tanhf(score);")}});
}

void check_tanh(const Problem& problem, Device& device, const std::shared_ptr<Module>& module, double relative) {
  std::vector<float> scores{NAN};
  for (const float x : {0.0f, 1e-40f, 1e-30f, 1e-10f, 1e-4f, 0.01f, 0.3f, 0.55f, 1.0f, 3.0f, 8.0f, 9.5f, 20.0f, 88.0f, 1e4f,
                        FLT_MAX, INFINITY})
    scores.insert(scores.end(), {x, -x});
  const std::size_t points = scores.size();
  for (std::size_t i = 0; i < points; ++i) scores.push_back(scores[i]);
  const ScoreModValues found = score_mod_values(problem, device, module, scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const bool approximate = i >= points;
    const double x = scores[i], exact = std::tanh(x), value = found.values[i], derivative = found.derivatives[i];
    SCOPED_TRACE((approximate ? "__tanhf of " : "fast_tanhf of ") + std::to_string(x));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(derivative)) << value << ", " << derivative;
      continue;
    }
    const double allowed = approximate ? relative * std::fabs(exact) : 0x1p-22;
    EXPECT_LE(std::fabs(value - exact), allowed);
    EXPECT_LE(std::fabs(value), 1);
    EXPECT_TRUE(!approximate || std::signbit(value) == std::signbit(x));
    // Of 1 - value^2, rounded.
    EXPECT_LE(std::fabs(derivative - (1 - exact * exact)), (2 * std::fabs(exact) + allowed) * allowed + 0x1p-24);
  }
}

}  // namespace tunesmith::test
