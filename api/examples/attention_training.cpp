// Trains the projections of a small causal attention layer by gradient descent: forward, loss, backward, step. The task is
// to repeat the token before: attention must find it from the positions. Runs on the first GPU, or else on the CPU with the
// host executor.

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace {

constexpr std::size_t seq = 32, width = 64, heads = 2, head_dim = width / heads;
constexpr int steps = 50;
constexpr float rate = 0.1f;

using Matrix = std::vector<float>;  // rows of `width` elements

/// Returns a b.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.size());
  for (std::size_t row = 0; row < a.size() / width; ++row)
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t c = 0; c < width; ++c) result[row * width + c] += a[row * width + i] * b[i * width + c];
  return result;
}

/// weights -= rate * inputs^T gradient.
void descend(Matrix& weights, const Matrix& inputs, const Matrix& gradient) {
  for (std::size_t row = 0; row < inputs.size() / width; ++row)
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t c = 0; c < width; ++c)
        weights[i * width + c] -= rate * inputs[row * width + i] * gradient[row * width + c];
}

}  // namespace

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  tunesmith::AttentionProblem forward{.heads = heads, .seq_q = seq, .head_dim = head_dim};
  forward.dtype = tunesmith::DType::f32;
  forward.causal = tunesmith::Causal::bottom_right;
  const tunesmith::AttentionBackwardProblem backward{forward};

  // Inputs are a random token and a position, each half of the width; positions are points on circles.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Matrix x(seq * width), wanted(seq * width), wq(width * width), wk(width * width), wv(width * width);
  for (std::size_t i = 0; i < seq; ++i)
    for (std::size_t c = 0; c < width / 2; ++c) {
      const float angle = static_cast<float>(i) * std::pow(0.7f, static_cast<float>(c / 2));
      x[i * width + c] = normal(random);
      x[i * width + width / 2 + c] = c % 2 == 0 ? std::cos(angle) : std::sin(angle);
    }
  for (std::size_t i = 0; i < seq; ++i)
    for (std::size_t c = 0; c < width / 2; ++c) wanted[i * width + c] = x[(i > 0 ? i - 1 : 0) * width + c];
  for (Matrix* weights : {&wq, &wk, &wv})
    for (float& weight : *weights) weight = normal(random) / std::sqrt(static_cast<float>(width));

  const auto buffer = [&](std::size_t floats) { return tunesmith::DeviceBuffer(engine, floats * sizeof(float)); };
  tunesmith::DeviceBuffer q = buffer(x.size()), k = buffer(x.size()), v = buffer(x.size()), o = buffer(x.size()),
                          lse = buffer(heads * seq), dout = buffer(x.size()), dq = buffer(x.size()), dk = buffer(x.size()),
                          dv = buffer(x.size());
  float first = 0, loss = 0;
  for (int step = 0; step < steps; ++step) {
    q.copy_from_host(product(x, wq).data(), q.bytes());
    k.copy_from_host(product(x, wk).data(), k.bytes());
    v.copy_from_host(product(x, wv).data(), v.bytes());
    // lse is requested, because the backward pass needs it.
    engine.run(forward,
               {.q = q.data(), .k = k.data(), .v = v.data(), .o = o.data(), .lse = static_cast<float*>(lse.data())});
    engine.synchronize();
    Matrix difference(x.size()), gradient(x.size());
    o.copy_to_host(difference.data(), o.bytes());
    loss = 0;
    for (std::size_t i = 0; i < difference.size(); ++i) {
      difference[i] -= wanted[i];
      loss += difference[i] * difference[i] / static_cast<float>(difference.size());
      difference[i] /= static_cast<float>(seq);  // the gradient of half the squared error of a token, on average
    }
    if (step == 0) first = loss;
    if (step % 10 == 0) std::printf("step %2d: loss %.4f\n", step, static_cast<double>(loss));

    dout.copy_from_host(difference.data(), dout.bytes());
    engine.run(backward, {.q = q.data(),
                          .k = k.data(),
                          .v = v.data(),
                          .o = o.data(),
                          .lse = static_cast<const float*>(lse.data()),
                          .dout = dout.data(),
                          .dq = dq.data(),
                          .dk = dk.data(),
                          .dv = dv.data()});
    engine.synchronize();
    const auto step_of = [&](Matrix& weights, const tunesmith::DeviceBuffer& array) {
      array.copy_to_host(gradient.data(), array.bytes());
      descend(weights, x, gradient);
    };
    step_of(wq, dq);
    step_of(wk, dk);
    step_of(wv, dv);
  }
  std::printf("%s: loss %.4f at first, %.4f after %d steps\n", engine.device().name.c_str(), static_cast<double>(first),
              static_cast<double>(loss), steps);
  return loss < first / 3 ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
