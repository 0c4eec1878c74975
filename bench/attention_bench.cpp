// Attention forward: TFLOP/s for 16384 forward_tokens and 2048 elements over all heads. bench/peers/attention.py compares
// with other implementations in one run.

#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "bench/gpu.h"
#include "bench/register.h"
#include "bench/tflops.h"
#include "tunesmith/attention.h"

namespace tunesmith::bench {
namespace {

constexpr std::int64_t forward_tokens = 16384, forward_hidden = 2048;

void run(benchmark::State& state, Engine& engine, const AttentionProblem& problem, Mode mode) {
  const DeviceBuffer q = random_numbers(engine, problem.dtype, forward_tokens * forward_hidden, 1);
  const DeviceBuffer k = random_numbers(engine, problem.dtype, forward_tokens * forward_hidden, 1, 2);
  const DeviceBuffer v = random_numbers(engine, problem.dtype, forward_tokens * forward_hidden, 1, 3);
  const DeviceBuffer o(engine, q.bytes());
  const DeviceBuffer lse(engine, static_cast<std::size_t>(forward_tokens * problem.heads) * sizeof(float));
  const std::array<void*, 5> arrays{q.data(), k.data(), v.data(), o.data(), lse.data()};
  PrepareOptions options;
  options.mode = mode;
  const Plan plan = engine.prepare(to_problem(problem), options);

  // Two matrix products over the visible pairs of a query and a key; half of all pairs for a causal mask, as is customary.
  const double flops = 4.0 * static_cast<double>(forward_tokens) * static_cast<double>(problem.seq_q * forward_hidden) *
                       (problem.causal == Causal::none ? 1 : 0.5);
  report_tflops(state, engine, plan, arrays, flops);
}

}  // namespace

void register_attention(Engine& engine) {
  for (const std::int64_t head_dim : {64, 128, 256})
    for (const Causal causal : {Causal::none, Causal::bottom_right})
      for (const std::int64_t seq : {512, 2048, 16384})
        for (const Mode mode : {Mode::tune, Mode::off}) {
          AttentionProblem problem;
          problem.batch = forward_tokens / seq;
          problem.heads = forward_hidden / head_dim;
          problem.seq_q = seq;
          problem.head_dim = head_dim;
          problem.causal = causal;
          const std::string title = "attention/bf16/d" + std::to_string(head_dim) +
                                    (causal == Causal::none ? "/full/" : "/causal/") + std::to_string(seq) +
                                    (mode == Mode::tune ? "/tuned" : "/default");
          register_timed(title, [&engine, problem, mode](benchmark::State& state) { run(state, engine, problem, mode); });
        }
}

}  // namespace tunesmith::bench
