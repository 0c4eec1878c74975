// Softmax against a device copy of the same bytes, interleaved in one run: GB/s and share of the copy.

#include <benchmark/benchmark.h>

#include <string>

#include "bench/gpu.h"
#include "bench/register.h"
#include "tunesmith/buffer.h"

namespace tunesmith::bench {
namespace {

struct Shape {
  std::int64_t rows, cols;
};

void run(benchmark::State& state, Engine& engine, SoftmaxProblem problem, Mode mode) {
  Device& device = *engine.parts().device;
  const auto bytes = static_cast<std::size_t>(problem.rows * problem.cols * size_of(problem.dtype));
  const DeviceBuffer x(engine, bytes), y(engine, bytes);
  // Bytes below 0x40 are positive numbers below 2 in all three dtypes.
  std::vector<unsigned char> pattern(std::min<std::size_t>(bytes, 1 << 20));
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned char>((i * 2654435761u) >> 24 & 0x3f);
  for (std::size_t at = 0; at < bytes; at += pattern.size())
    device.copy_to_device(static_cast<std::byte*>(x.data()) + at, pattern.data(), std::min(pattern.size(), bytes - at));
  PrepareOptions options;
  options.mode = mode;
  const Plan plan = engine.prepare(problem, options);

  for (auto _ : state) {
    const std::vector<double> us =
        interleaved_us(device,
                       {[&](Stream stream) { device.copy_async(y.data(), x.data(), bytes, stream); },
                        [&](Stream stream) { plan.launch(x.data(), y.data(), stream); }},
                       31);
    state.SetIterationTime(us[1] * 1e-6);
    state.counters["GB/s"] = plan.bytes() / us[1] * 1e-3;
    state.counters["copy_GB/s"] = plan.bytes() / us[0] * 1e-3;
    state.counters["share_of_copy"] = us[0] / us[1];
  }
  state.SetLabel(std::string(name(plan.origin())) + " " + plan.config().text());
}

}  // namespace

void register_softmax(Engine& engine) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Shape shape : {Shape{65536, 128},
                              {32768, 1024},
                              {4096, 256},
                              {4096, 781},
                              {4096, 1024},
                              {4096, 4096},
                              {4096, 8192},
                              {4096, 16384},
                              {4096, 32000},
                              {4096, 32768},
                              {4096, 131072},
                              {16, 262144}})
      for (const Mode mode : {Mode::tune, Mode::off}) {
        if (dtype == DType::f16 && mode == Mode::off) continue;  // equals bf16
        const std::string title = "softmax/" + std::string(name(dtype)) + "/" + std::to_string(shape.rows) + "x" +
                                  std::to_string(shape.cols) + (mode == Mode::tune ? "/tuned" : "/default");
        const SoftmaxProblem problem = SoftmaxProblem::contiguous(shape.rows, shape.cols, dtype);
        register_timed(title, [&engine, problem, mode](benchmark::State& state) { run(state, engine, problem, mode); });
      }
}

}  // namespace tunesmith::bench
