// Softmax of a matrix in about thirty lines. Runs on the first GPU, or else on the CPU with the host executor.

#include <cstdio>
#include <random>
#include <vector>

#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

int main() try {
  tunesmith::Engine engine;  // reads device, mode and cache from the environment
  const auto problem = tunesmith::SoftmaxProblem::contiguous(/*rows=*/16, /*cols=*/1000, tunesmith::DType::f32);

  std::vector<float> x(static_cast<std::size_t>(problem.rows * problem.cols)), y(x.size());
  std::mt19937 random(1);
  for (float& value : x) value = std::normal_distribution<float>(0, 3)(random);

  // A program with its own device memory (cudaMalloc, a tensor library) passes its addresses instead.
  tunesmith::DeviceBuffer device_x(engine, x.size() * sizeof(float)), device_y(engine, x.size() * sizeof(float));
  device_x.copy_from_host(x.data(), device_x.bytes());

  const tunesmith::Plan plan = engine.prepare(problem);  // renders, tunes and compiles, or finds the result in the cache
  plan.launch(device_x.data(), device_y.data());         // only launches the kernel
  engine.synchronize();
  device_y.copy_to_host(y.data(), device_y.bytes());

  double sum = 0;
  for (std::int64_t c = 0; c < problem.cols; ++c) sum += y[static_cast<std::size_t>(c)];
  std::printf("%s on %s: %s (%s), first row sums to %.6f\n", plan.problem().text().c_str(), engine.device().name.c_str(),
              plan.config().text().c_str(), tunesmith::name(plan.origin()).data(), sum);
  return sum > 0.999 && sum < 1.001 ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
