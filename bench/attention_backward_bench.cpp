// Attention backward: TFLOP/s for 16384 token_count and 2048 elements over all heads. bench/peers/attention_backward.py
// compares with other implementations in one run.

#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "bench/gpu.h"
#include "bench/register.h"
#include "bench/tflops.h"
#include "tunesmith/attention_backward.h"

namespace tunesmith::bench {
namespace {

constexpr std::int64_t token_count = 16384, hidden_size = 2048;

void run(benchmark::State& state, Engine& engine, const AttentionBackwardProblem& problem, Mode mode) {
  const auto numbers = [&](unsigned seed) {
    return random_numbers(engine, problem.dtype, token_count * hidden_size, 1, seed);
  };
  const DeviceBuffer q = numbers(1), k = numbers(2), v = numbers(3), dout = numbers(4);
  const DeviceBuffer o(engine, q.bytes()), dq(engine, q.bytes()), dk(engine, q.bytes()), dv(engine, q.bytes());
  const DeviceBuffer lse(engine, static_cast<std::size_t>(token_count * problem.heads) * sizeof(float));
  const AttentionProblem& forward = problem;
  engine.run(forward, {.q = q.data(), .k = k.data(), .v = v.data(), .o = o.data(), .lse = static_cast<float*>(lse.data())});
  const std::array<void*, 9> arrays{q.data(),    k.data(),  v.data(),  o.data(), lse.data(),
                                    dout.data(), dq.data(), dk.data(), dv.data()};
  PrepareOptions options;
  options.mode = mode;
  const Plan plan = engine.prepare(to_problem(problem), options);

  // Five matrix products over the visible pairs of a query and a key; half of all pairs for a causal mask, as is customary.
  const double flops = 10.0 * static_cast<double>(token_count) * static_cast<double>(problem.seq_q * hidden_size) *
                       (problem.causal == Causal::none ? 1 : 0.5);
  report_tflops(state, engine, plan, arrays, flops);
}

}  // namespace

void register_attention_backward(Engine& engine) {
  for (const std::int64_t head_dim : {64, 128, 256})
    for (const Causal causal : {Causal::none, Causal::bottom_right})
      for (const std::int64_t seq : {512, 2048, 8192})
        for (const bool deterministic : {false, true})
          for (const Mode mode : {Mode::tune, Mode::off}) {
            AttentionBackwardProblem problem;
            problem.batch = token_count / seq;
            problem.heads = hidden_size / head_dim;
            problem.seq_q = seq;
            problem.head_dim = head_dim;
            problem.causal = causal;
            problem.deterministic = deterministic;
            const std::string title = "attention_backward/bf16/d" + std::to_string(head_dim) +
                                      (causal == Causal::none ? "/full/" : "/causal/") + std::to_string(seq) +
                                      (deterministic ? "/deterministic" : "") + (mode == Mode::tune ? "/tuned" : "/default");
            register_timed(title, [&engine, problem, mode](benchmark::State& state) { run(state, engine, problem, mode); });
          }
}

}  // namespace tunesmith::bench
