#pragma once
// What the benchmarks share: the engine under test, numbers to work on, interleaved device timings.

#include <functional>
#include <memory>
#include <vector>

#include "api/engine/parts.h"
#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith::bench {

/// An engine on the first GPU, set up from the environment; nullptr where there is none.
std::unique_ptr<Engine> open_gpu(EngineOptions options = EngineOptions::from_environment());

/// Normally distributed numbers: products of zeros draw less power and run faster.
DeviceBuffer random_numbers(Engine& engine, DType dtype, std::int64_t elements, float deviation, unsigned seed = 1);

double median(std::vector<double> samples);

/// Median device time of each work in microseconds: `rounds` rounds, each running every work once behind a flushed L2 cache;
/// the first round warms up and does not count.
std::vector<double> interleaved_us(Device& device, const std::vector<std::function<void(Stream)>>& works, int rounds);

}  // namespace tunesmith::bench
