#pragma once
// Shared parts of the benchmarks: the engine under test, random inputs, interleaved device times.

#include <functional>
#include <memory>
#include <vector>

#include "api/engine/parts.h"
#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith::bench {

/// Returns an engine on the first GPU, configured by the environment; nullptr without a GPU.
std::unique_ptr<Engine> open_gpu(EngineOptions options = EngineOptions::from_environment());

/// Returns normally distributed numbers. Zeros would draw less power and run faster.
DeviceBuffer random_numbers(Engine& engine, DType dtype, std::int64_t elements, float deviation, unsigned seed = 1);

/// Returns the arrays in the order of a launch; nullptr for those that are not given.
std::vector<void*> launch_order(const Plan& plan, const std::vector<NamedArray>& arrays);

double median(std::vector<double> samples);

/// Returns the median device time of each work in microseconds over `rounds` rounds, after a warm-up round. A round runs
/// every work once and flushes the L2 cache before each.
std::vector<double> interleaved_us(Device& device, const std::vector<std::function<void(Stream)>>& works, int rounds);

}  // namespace tunesmith::bench
