// A custom operation: a program of twelve lines, its kernel, and the kernel of its gradient, both compared with float64.
// Runs on the first GPU, or else on the CPU with the host executor.

#include "tunesmith/row_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace {

// Probabilities of logits with a bias, a soft cap and a temperature; the entropy and the likeliest column of each row.
constexpr const char* program = R"(
  in logits : float[row, col]
  in bias : float[col]
  num cap : f32 = 30
  num temperature : f32 = 1
  t = cap * tanh((logits + bias) / cap) / temperature
  lse l, m, s = t
  y = exp(t - m) / s
  sum mean_logit = y * t
  argmax k = t
  out p : float[row, col] = y
  out entropy : f32[row] = l - mean_logit
  out best : i32[row] = k
)";
constexpr std::size_t rows = 6, cols = 150;
constexpr double cap = 5, temperature = 0.75;

struct RowResults {
  std::vector<double> p;
  double entropy = 0;
  std::ptrdiff_t best = 0;
};

/// Computes the program for one row in float64.
RowResults reference(const std::vector<double>& logits, const std::vector<float>& bias) {
  std::vector<double> t(cols);
  for (std::size_t c = 0; c < cols; ++c)
    t[c] = cap * std::tanh((logits[c] + static_cast<double>(bias[c])) / cap) / temperature;
  const auto at_largest = std::max_element(t.begin(), t.end());
  const double largest = *at_largest;
  double sum = 0;
  for (const double value : t) sum += std::exp(value - largest);
  RowResults results{std::vector<double>(cols), largest + std::log(sum), at_largest - t.begin()};
  for (std::size_t c = 0; c < cols; ++c) {
    results.p[c] = std::exp(t[c] - largest) / sum;
    results.entropy -= results.p[c] * t[c];
  }
  return results;
}

}  // namespace

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  tunesmith::RowProgramProblem forward;
  forward.program = program;
  forward.rows = rows;
  forward.cols = cols;
  forward.dtype = tunesmith::DType::f32;  // of the arrays that the program declares as float
  forward.numbers = {{"cap", cap}, {"temperature", temperature}};
  tunesmith::RowProgramProblem backward = forward;
  backward.program = forward.program.gradient();  // logits, bias, dp, dentropy -> dlogits, dbias

  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  const auto drawn = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
  };
  const std::vector<float> logits = drawn(rows * cols), bias = drawn(cols), dp = drawn(rows * cols), dentropy = drawn(rows);

  // A program with its own device memory (cudaMalloc, a tensor library) passes its addresses instead.
  const auto copied = [&](const std::vector<float>& values) {
    tunesmith::DeviceBuffer buffer(engine, values.size() * sizeof(float));
    buffer.copy_from_host(values.data(), buffer.bytes());
    return buffer;
  };
  const auto array = [&](std::size_t count) { return tunesmith::DeviceBuffer(engine, count * sizeof(float)); };
  const tunesmith::DeviceBuffer device_logits = copied(logits), device_bias = copied(bias), device_dp = copied(dp),
                                device_dentropy = copied(dentropy), p = array(rows * cols), entropy = array(rows),
                                best = tunesmith::DeviceBuffer(engine, rows * sizeof(std::int32_t)),
                                dlogits = array(rows * cols), dbias = array(cols);
  engine.run(forward,
             {.inputs = {device_logits.data(), device_bias.data()}, .outputs = {p.data(), entropy.data(), best.data()}});
  const tunesmith::Plan gradient = engine.prepare(backward);
  gradient.launch({{"logits", device_logits.data()},
                   {"bias", device_bias.data()},
                   {"dp", device_dp.data()},
                   {"dentropy", device_dentropy.data()},
                   {"dlogits", dlogits.data()},
                   {"dbias", dbias.data()}});
  engine.synchronize();

  // The gradient is compared with differences of the function sum(dp * p) + sum(dentropy * entropy).
  std::vector<double> expected_dbias(cols);
  double error = 0, gradient_error = 0;
  const auto read = [](const tunesmith::DeviceBuffer& buffer) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    buffer.copy_to_host(values.data(), buffer.bytes());
    return values;
  };
  const std::vector<float> found_p = read(p), found_entropy = read(entropy), found_dlogits = read(dlogits),
                           found_dbias = read(dbias);
  std::vector<std::int32_t> found_best(rows);
  best.copy_to_host(found_best.data(), best.bytes());
  bool columns_agree = true;
  const auto raise = [](double& largest, float found, double expected) {
    const double difference = std::abs(static_cast<double>(found) - expected);
    if (!(difference <= largest)) largest = difference;  // NaN as well
  };
  for (std::size_t r = 0; r < rows; ++r) {
    const auto begin = static_cast<std::ptrdiff_t>(r * cols);
    std::vector<double> row(logits.begin() + begin, logits.begin() + begin + static_cast<std::ptrdiff_t>(cols));
    const RowResults results = reference(row, bias);
    raise(error, found_entropy[r], results.entropy);
    columns_agree = columns_agree && found_best[r] == results.best;
    for (std::size_t c = 0; c < cols; ++c) {
      raise(error, found_p[r * cols + c], results.p[c]);
      constexpr double step = 1e-4;
      const auto function = [&](double change) {
        std::vector<double> changed = row;
        changed[c] += change;
        const RowResults at = reference(changed, bias);
        double value = static_cast<double>(dentropy[r]) * at.entropy;
        for (std::size_t k = 0; k < cols; ++k) value += static_cast<double>(dp[r * cols + k]) * at.p[k];
        return value;
      };
      const double slope = (function(step) - function(-step)) / (2 * step);
      raise(gradient_error, found_dlogits[r * cols + c], slope);
      expected_dbias[c] += slope;
    }
  }
  for (std::size_t c = 0; c < cols; ++c) raise(gradient_error, found_dbias[c], expected_dbias[c]);
  std::printf("%s: largest error %.1e, of the gradient %.1e\n", engine.device().name.c_str(), error, gradient_error);
  const bool right = columns_agree && error < 1e-5 && gradient_error < 1e-5;
  std::puts(right ? "kernel and gradient agree with float64" : "kernel or gradient is wrong");
  return right ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
