#pragma once
// The rate of plans whose time is arithmetic.

#include <benchmark/benchmark.h>

#include <span>

#include "bench/gpu.h"

namespace tunesmith::bench {

/// Times a plan and reports its rate in TFLOP/s, its configuration and where that comes from.
void report_tflops(benchmark::State& state, Engine& engine, const Plan& plan, std::span<void* const> arrays, double flops);

}  // namespace tunesmith::bench
