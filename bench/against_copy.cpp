#include "bench/against_copy.h"

#include <algorithm>

#include "bench/gpu.h"
#include "bench/register.h"

namespace tunesmith::bench {
namespace {

/// Fills an array with bytes below 0x40, which are positive numbers below 2 in all float dtypes.
void fill(Device& device, const DeviceBuffer& array) {
  std::vector<unsigned char> pattern(std::min<std::size_t>(array.bytes(), 1 << 20));
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned char>((i * 2654435761u) >> 24 & 0x3f);
  for (std::size_t at = 0; at < array.bytes(); at += pattern.size())
    device.copy_to_device(static_cast<std::byte*>(array.data()) + at, pattern.data(),
                          std::min(pattern.size(), array.bytes() - at));
}

void run(benchmark::State& state, Engine& engine, const Problem& problem, Mode mode) {
  Device& device = *engine.parts().device;
  PrepareOptions options;
  options.mode = mode;
  const Plan plan = engine.prepare(problem, options);
  std::vector<DeviceBuffer> arrays;
  std::vector<void*> addresses;
  for (const ArrayInfo& info : plan.arrays()) {
    arrays.emplace_back(engine, static_cast<std::size_t>(info.extent_bytes()));
    if (info.input) fill(device, arrays.back());
    addresses.push_back(arrays.back().data());
  }
  const auto infos = plan.arrays();
  const auto largest = [&](bool input) {
    std::size_t found = arrays.size();
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (infos[i].input == input && (found == arrays.size() || arrays[i].bytes() > arrays[found].bytes())) found = i;
    return found;
  };
  const DeviceBuffer &x = arrays[largest(true)], &y = arrays[largest(false)];
  const std::size_t copied = std::min(x.bytes(), y.bytes());

  for (auto _ : state) {
    const std::vector<double> us =
        interleaved_us(device,
                       {[&](Stream stream) { device.copy_async(y.data(), x.data(), copied, stream); },
                        [&](Stream stream) { plan.launch(addresses, stream); }},
                       31);
    state.SetIterationTime(us[1] * 1e-6);
    state.counters["GB/s"] = plan.bytes() / us[1] * 1e-3;
    const double copy_rate = 2e-3 * static_cast<double>(copied) / us[0];
    state.counters["copy_GB/s"] = copy_rate;
    state.counters["share_of_copy"] = plan.bytes() / us[1] * 1e-3 / copy_rate;
  }
  state.SetLabel(std::string(name(plan.origin())) + " " + plan.config().text());
}

}  // namespace

void register_against_copy(Engine& engine, const std::string& name, const Problem& problem, Mode mode) {
  register_timed(name, [&engine, problem, mode](benchmark::State& state) { run(state, engine, problem, mode); });
}

}  // namespace tunesmith::bench
