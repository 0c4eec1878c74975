#include "tests/api/engine/cross_entropy_fixture.h"

#include <algorithm>
#include <numeric>

namespace tunesmith::test {

double LossReference::mean_z_loss() const { return std::accumulate(z_loss.begin(), z_loss.end(), 0.0) / counted; }

double LossReference::mean_loss() const {
  const double with_z = std::accumulate(loss.begin(), loss.end(), 0.0);
  return (with_z - std::accumulate(z_loss.begin(), z_loss.end(), 0.0)) / total_weight + mean_z_loss();
}

LossReference reference(const CrossEntropyProblem& problem, const std::vector<float>& logits,
                        const std::vector<std::int64_t>& targets, const std::vector<float>& weights) {
  LossReference out;
  const auto classes = static_cast<std::size_t>(problem.cols);
  const double hard = 1 - problem.label_smoothing, smooth = problem.label_smoothing / static_cast<double>(problem.cols);
  const auto weight = [&](std::size_t c) { return weights.empty() ? 1.0 : static_cast<double>(weights[c]); };
  for (const std::int64_t target : targets) {
    if (target == problem.ignore_index) continue;
    out.total_weight += weight(static_cast<std::size_t>(target));
    out.counted += 1;
  }
  const double z_slope = 2 * problem.z_loss * (problem.reduction == Reduction::mean ? out.total_weight / out.counted : 1);
  for (std::size_t r = 0; r < targets.size(); ++r) {
    std::vector<double> x(classes), slope(classes);
    for (std::size_t c = 0; c < classes; ++c) {
      x[c] = problem.scale * static_cast<double>(logits[r * classes + c]);
      slope[c] = problem.scale;
      if (problem.softcap == 0) continue;
      const double bent = std::tanh(x[c] / problem.softcap);
      x[c] = problem.softcap * bent;
      slope[c] *= 1 - bent * bent;
    }
    double sum = 0, sum_weights = 0, smoothed = 0;
    const double largest = *std::max_element(x.begin(), x.end());
    for (const double value : x) sum += std::exp(value - largest);
    const double lse = largest + std::log(sum);
    out.lse.push_back(lse);
    out.argmax.push_back(std::max_element(x.begin(), x.end()) - x.begin());
    const bool ignored = targets[r] == problem.ignore_index;
    const auto t = static_cast<std::size_t>(ignored ? 0 : targets[r]);
    for (std::size_t c = 0; c < classes; ++c) {
      sum_weights += weight(c);
      smoothed += weight(c) * (lse - x[c]);
    }
    const double z = problem.z_loss * lse * lse;
    out.nll.push_back(ignored ? 0 : lse - x[t]);
    out.z_loss.push_back(ignored ? 0 : z);
    out.loss.push_back(ignored ? 0 : hard * weight(t) * (lse - x[t]) + smooth * smoothed + z);
    for (std::size_t c = 0; c < classes; ++c) {
      const double p = std::exp(x[c] - lse);
      const double d =
          hard * weight(t) * (p - (c == t ? 1 : 0)) + smooth * (sum_weights * p - weight(c)) + z_slope * lse * p;
      out.gradient.push_back(ignored ? 0 : d * slope[c]);
    }
  }
  return out;
}

void CrossEntropyFamily::fill(std::size_t rows, std::size_t cols, std::int64_t ignore_index) {
  logits_.resize(rows * cols);
  for (std::size_t i = 0; i < logits_.size(); ++i)
    logits_[i] = static_cast<float>(std::sin(static_cast<double>(7 * i + 1)) * 4);
  targets_.resize(rows);
  for (std::size_t r = 0; r < rows; ++r) targets_[r] = static_cast<std::int64_t>((r * 5 + 2) % cols);
  if (rows > 2) targets_[2] = ignore_index;
  weights_.resize(cols);
  for (std::size_t c = 0; c < cols; ++c) weights_[c] = 0.25f + 0.125f * static_cast<float>(c % 7);
  loss_.assign(rows, -1);
  lse_.assign(rows, -1);
  z_loss_.assign(rows, -1);
  nll_.assign(rows, -1);
  argmax_.assign(rows, -1);
  dlogits_.assign(logits_.size(), -1);
}

float CrossEntropyFamily::loss_of(CrossEntropyProblem problem, std::vector<float> logits, std::vector<std::int64_t> targets,
                                  const std::vector<float>& weights) {
  problem.rows = static_cast<std::int64_t>(targets.size());
  problem.cols = 3;
  std::vector<float> lse(targets.size());
  float loss = -1;
  CrossEntropyArrays arrays;
  arrays.targets = targets.data();
  arrays.loss = &loss;
  arrays.lse = lse.data();
  if (!weights.empty()) arrays.weight = weights.data();
  engine_.run_checked(problem, with_logits(arrays, logits.data()));
  return loss;
}

}  // namespace tunesmith::test
