#include "bench/gpu.h"

#include <algorithm>

namespace tunesmith::bench {

std::unique_ptr<Engine> open_gpu(EngineOptions options) {
  options.device = "cuda";
  options.shipped_cache.clear();  // figures are of what this engine finds, not of what ships
  try {
    return std::make_unique<Engine>(std::move(options));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_device) throw;
    return nullptr;
  }
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

std::vector<double> interleaved_us(Device& device, const std::vector<std::function<void(Stream)>>& works, int rounds) {
  std::vector<std::vector<double>> samples(works.size());
  for (int round = 0; round <= rounds; ++round) {
    const std::vector<double> times = device.time_us(works, true);
    for (std::size_t i = 0; i < works.size() && round > 0; ++i) samples[i].push_back(times[i]);
  }
  std::vector<double> medians;
  for (auto& of_work : samples) medians.push_back(median(std::move(of_work)));
  return medians;
}

}  // namespace tunesmith::bench
