#include "bench/tflops.h"

#include <string>

namespace tunesmith::bench {

void report_tflops(benchmark::State& state, Engine& engine, const Plan& plan, std::span<void* const> arrays, double flops) {
  for (auto _ : state) {
    const double us =
        interleaved_us(*engine.parts().device, {[&](Stream stream) { plan.launch(arrays, stream); }}, 15).front();
    state.SetIterationTime(us * 1e-6);
    state.counters["TFLOP/s"] = flops / us * 1e-6;
  }
  state.SetLabel(std::string(name(plan.origin())) + " " + plan.config().text());
}

}  // namespace tunesmith::bench
