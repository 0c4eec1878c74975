// tunesmith_bench: Google Benchmark on one GPU. Times are device times unless a benchmark is named "host".

#include <benchmark/benchmark.h>

#include <cstdio>
#include <utility>

#include "bench/gpu.h"

namespace tunesmith::bench {
void register_attention(Engine& engine);
void register_attention_backward(Engine& engine);
void register_softmax(Engine& engine);
void register_rms_norm(Engine& engine);
void register_row_program(Engine& engine);
void register_dispatch(Engine& engine);
void register_linear_cross_entropy(Engine& engine);
}  // namespace tunesmith::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  auto options = tunesmith::EngineOptions::from_environment();
  options.tune_share = 1;  // kernels are compared tuned, however long that takes
  const auto engine = tunesmith::bench::open_gpu(std::move(options));
  if (engine == nullptr) {
    std::puts("tunesmith_bench: no GPU here, nothing measured");
    return 0;
  }
  benchmark::AddCustomContext("gpu", engine->device().name);
  for (const auto& [name, value] : engine->parts().device->provenance()) benchmark::AddCustomContext(name, value);
  tunesmith::bench::register_softmax(*engine);
  tunesmith::bench::register_rms_norm(*engine);
  tunesmith::bench::register_row_program(*engine);
  tunesmith::bench::register_attention(*engine);
  tunesmith::bench::register_attention_backward(*engine);
  tunesmith::bench::register_dispatch(*engine);
  tunesmith::bench::register_linear_cross_entropy(*engine);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
