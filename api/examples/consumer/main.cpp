// A program outside of this repository: softmax of two rows on the host executor, which needs no GPU.

#include <cmath>
#include <cstdio>
#include <vector>

#include "tunesmith/tunesmith.h"

int main() try {
  tunesmith::EngineOptions options = tunesmith::EngineOptions::from_environment();
  options.device = "host";
  options.cache_file.clear();  // do not write a cache file
  tunesmith::Engine engine(options);

  // On the host executor, device memory is host memory, and a call returns when its work is complete.
  const auto problem = tunesmith::SoftmaxProblem::contiguous(/*rows=*/2, /*cols=*/4, tunesmith::DType::f32);
  const std::vector<float> x = {0, 1, 2, 3, 1000, 1000, 1000, 1000};
  std::vector<float> y(x.size());
  engine.softmax(x.data(), y.data(), problem);

  std::printf("tunesmith %s, %s\n", TUNESMITH_VERSION, engine.device().name.c_str());
  for (std::size_t row = 0; row < 2; ++row) {
    const float* values = &y[row * 4];
    std::printf("%.4f %.4f %.4f %.4f\n", values[0], values[1], values[2], values[3]);
  }
  const double e = std::exp(1.0);
  const bool right = std::abs(y[3] - e * e * e / (1 + e + e * e + e * e * e)) < 1e-6 && std::abs(y[4] - 0.25) < 1e-6;
  return right ? 0 : 1;
} catch (const tunesmith::Error& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return 1;
}
