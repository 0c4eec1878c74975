#pragma once
// Registration of benchmarks that time their work themselves.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

namespace tunesmith::bench {

/// Registers a benchmark that runs once and sets its own time.
template <typename Run>
void register_timed(const std::string& name, Run run, benchmark::TimeUnit unit = benchmark::kMicrosecond) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(run))->UseManualTime()->Iterations(1)->Unit(unit);
}

}  // namespace tunesmith::bench
