#include "bench/gpu.h"

#include <algorithm>
#include <random>
#include <string_view>

#include "core/half.h"

namespace tunesmith::bench {

std::unique_ptr<Engine> open_gpu(EngineOptions options) {
  options.device = "cuda";
  options.shipped_cache.clear();  // the figures are of what this engine finds
  try {
    return std::make_unique<Engine>(std::move(options));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_device) throw;
    return nullptr;
  }
}

std::vector<void*> launch_order(const Plan& plan, const std::vector<NamedArray>& arrays) {
  std::vector<void*> addresses;
  for (const ArrayInfo& info : plan.arrays()) {
    const auto given = std::ranges::find(arrays, std::string_view(info.name), &NamedArray::name);
    addresses.push_back(given == arrays.end() ? nullptr : const_cast<void*>(given->address));
  }
  return addresses;
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

DeviceBuffer random_numbers(Engine& engine, DType dtype, std::int64_t elements, float deviation, unsigned seed) {
  std::vector<std::byte> pattern(static_cast<std::size_t>(std::min<std::int64_t>(elements, 1 << 20) * size_of(dtype)));
  std::mt19937 random(seed);
  std::normal_distribution<float> number(0, deviation);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(pattern.size()) / size_of(dtype); ++i)
    write_element(dtype, pattern.data(), i, number(random));
  DeviceBuffer buffer(engine, static_cast<std::size_t>(elements * size_of(dtype)));
  for (std::size_t at = 0; at < buffer.bytes(); at += pattern.size())
    buffer.copy_from_host(pattern.data(), std::min(pattern.size(), buffer.bytes() - at), at);
  return buffer;
}

}  // namespace tunesmith::bench
