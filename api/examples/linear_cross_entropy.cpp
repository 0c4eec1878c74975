// Loss and gradients of a language model's last layer, without storing the logits of all tokens. Runs on the first GPU, or
// else on the CPU with the host executor.

#include "tunesmith/linear_cross_entropy.h"

#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "tunesmith/buffer.h"

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  tunesmith::LinearCrossEntropyProblem problem;
  problem.tokens = 48;
  problem.hidden_size = 32;
  problem.vocab_size = 1000;
  problem.dtype = tunesmith::DType::f32;
  problem.dhidden = problem.dweight = true;
  problem.chunk_tokens = 20;  // for demonstration; by default memory_bytes determines it

  const auto tokens = static_cast<std::size_t>(problem.tokens), hidden_size = static_cast<std::size_t>(problem.hidden_size);
  const auto vocab_size = static_cast<std::size_t>(problem.vocab_size);
  std::vector<float> hidden(tokens * hidden_size), weight(vocab_size * hidden_size);
  std::vector<std::int64_t> targets(tokens);
  std::mt19937 random(1);
  for (float& value : hidden) value = std::normal_distribution<float>(0, 1)(random);
  for (float& value : weight) value = std::normal_distribution<float>(0, 0.1f)(random);
  for (std::int64_t& target : targets) target = std::uniform_int_distribution<std::int64_t>(0, 999)(random);

  // A program with its own device memory (cudaMalloc, a tensor library) passes its addresses instead.
  tunesmith::DeviceBuffer device_hidden(engine, hidden.size() * sizeof(float)), dhidden(engine, device_hidden.bytes());
  tunesmith::DeviceBuffer device_weight(engine, weight.size() * sizeof(float)), dweight(engine, device_weight.bytes());
  tunesmith::DeviceBuffer device_targets(engine, targets.size() * sizeof(std::int64_t)), device_loss(engine, sizeof(float));
  device_hidden.copy_from_host(hidden.data(), device_hidden.bytes());
  device_weight.copy_from_host(weight.data(), device_weight.bytes());
  device_targets.copy_from_host(targets.data(), device_targets.bytes());

  const tunesmith::LinearCrossEntropy prepared(engine, problem);
  tunesmith::LinearCrossEntropyArrays arrays;
  arrays.hidden = device_hidden.data();
  arrays.weight = device_weight.data();
  arrays.targets = device_targets.data();
  arrays.loss = static_cast<float*>(device_loss.data());
  arrays.dhidden = dhidden.data();
  arrays.dweight = dweight.data();
  prepared.launch(arrays);
  engine.synchronize();

  float loss = 0;
  device_loss.copy_to_host(&loss, sizeof loss);
  std::printf("%lld chunks of %lld tokens, workspace of %zu bytes on %s: mean loss %.4f\n",
              static_cast<long long>(prepared.chunks()), static_cast<long long>(prepared.chunk_tokens()),
              prepared.workspace_bytes(), engine.device().name.c_str(), static_cast<double>(loss));
  // Random logits with a standard deviation of 0.57 and 1000 classes: slightly more than log(1000).
  return loss > 6.5f && loss < 7.7f ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
