// Causal grouped-query attention with eight query heads and two key heads. Runs on the first GPU, or else on the CPU with
// the host executor.

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  constexpr std::size_t heads = 8, kv_heads = 2, seq = 100, head_dim = 64;
  tunesmith::AttentionProblem problem{.batch = 1, .heads = heads, .kv_heads = kv_heads, .seq_q = seq, .head_dim = head_dim};
  problem.dtype = tunesmith::DType::f32;
  problem.causal = tunesmith::Causal::bottom_right;

  std::vector<float> q(seq * heads * head_dim), kv(seq * kv_heads * head_dim), o(q.size());
  std::mt19937 random(1);
  for (std::vector<float>* array : {&q, &kv})
    for (float& value : *array) value = std::normal_distribution<float>()(random);

  // A program with its own device memory (cudaMalloc, a tensor library) passes its addresses instead.
  tunesmith::DeviceBuffer device_q(engine, q.size() * sizeof(float)), device_o(engine, device_q.bytes());
  tunesmith::DeviceBuffer device_kv(engine, kv.size() * sizeof(float));
  device_q.copy_from_host(q.data(), device_q.bytes());
  device_kv.copy_from_host(kv.data(), device_kv.bytes());
  // The keys are also the values. The first call prepares a plan, later ones reuse it. lse is not requested.
  engine.run(problem, {.q = device_q.data(), .k = device_kv.data(), .v = device_kv.data(), .o = device_o.data()});
  engine.synchronize();
  device_o.copy_to_host(o.data(), device_o.bytes());

  float difference = 0;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t c = 0; c < head_dim; ++c)
      difference = std::fmax(difference, std::fabs(o[h * head_dim + c] - kv[h / (heads / kv_heads) * head_dim + c]));
  std::printf("%s: the first query sees only the first key; largest difference from its value: %g\n",
              engine.device().name.c_str(), static_cast<double>(difference));
  return difference < 1e-6f ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
