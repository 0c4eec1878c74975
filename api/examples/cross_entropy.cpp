// Twenty steps of gradient descent on logits, with the loss and its gradient in the same pass. Runs on the first GPU, or
// else on the CPU with the host executor.

#include <cstdio>
#include <vector>

#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  constexpr std::size_t rows = 8, classes = 1000;
  auto problem = tunesmith::CrossEntropyProblem::contiguous(rows, classes, tunesmith::DType::f32);
  problem.label_smoothing = 0.01;
  problem.check_targets = true;  // for debugging: waits for each call and reports the first invalid target

  std::vector<std::int64_t> targets(rows);
  for (std::size_t r = 0; r < rows; ++r) targets[r] = static_cast<std::int64_t>(37 * r);
  targets.back() = problem.ignore_index;  // padding

  std::vector<float> logits(rows * classes), gradient(logits.size());
  tunesmith::DeviceBuffer device_logits(engine, logits.size() * sizeof(float)),
      device_gradient(engine, device_logits.bytes());
  tunesmith::DeviceBuffer device_targets(engine, rows * sizeof(std::int64_t)), device_lse(engine, rows * sizeof(float));
  tunesmith::DeviceBuffer device_loss(engine, sizeof(float));
  device_targets.copy_from_host(targets.data(), device_targets.bytes());

  float first = 0, loss = 0;
  for (int step = 0; step <= 20; ++step) {
    device_logits.copy_from_host(logits.data(), device_logits.bytes());
    // With dlogits = logits, the gradient would overwrite the logits.
    engine.run_checked(problem, {.logits = device_logits.data(),
                                 .targets = device_targets.data(),
                                 .loss = device_loss.data(),
                                 .lse = device_lse.data(),
                                 .dlogits = device_gradient.data()});
    device_loss.copy_to_host(&loss, sizeof loss);
    device_gradient.copy_to_host(gradient.data(), device_gradient.bytes());
    if (step == 0) first = loss;
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] -= 5 * gradient[i];
  }
  std::printf("%s: loss %.4f, after 20 steps %.4f\n", engine.device().name.c_str(), static_cast<double>(first),
              static_cast<double>(loss));
  return loss < first ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
