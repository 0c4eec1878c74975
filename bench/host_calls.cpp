// tunesmith_host_calls: host time of launches on the idle platform, so without a GPU and without the driver's share: a
// kernel alone, a prepared plan, a one-shot call. Medians of interleaved rounds.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "bench/idle_platform.h"
#include "tunesmith/buffer.h"

namespace tunesmith::bench {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double>& samples) {
  std::ranges::nth_element(samples, samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2));
  return samples[samples.size() / 2];
}

template <typename Call>
double nanoseconds_per_call(const Call& call) {
  constexpr int calls = 2000;
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
}

/// Prints one line of the table. `arrays`: as the plan takes them.
template <typename Problem>
void measure(const char* name, Engine& engine, const Problem& problem, const typename Problem::Arrays& given,
             const std::vector<void*>& arrays) {
  const Plan plan = engine.prepare(problem);
  const std::unique_ptr<PreparedKernel> kernel =
      engine.parts().device->prepare(*engine.parts().device->load({}), KernelLaunch{});
  std::array<std::byte, 4096> params{};
  std::array<std::vector<double>, 3> samples;
  engine.run(problem, given);
  for (int round = 0; round < 301; ++round) {
    samples[0].push_back(nanoseconds_per_call([&] { kernel->enqueue(params.data(), nullptr); }));
    samples[1].push_back(nanoseconds_per_call([&] { plan.launch(arrays); }));
    samples[2].push_back(nanoseconds_per_call([&] { engine.run(problem, given); }));
  }
  const double raw = median(samples[0]), planned = median(samples[1]), one_shot = median(samples[2]);
  std::printf("%-16s %8.1f %8.1f %8.1f %16.1f\n", name, raw, planned, one_shot, one_shot - raw);
}

/// Prints the median host time of preparing, and of calling, a problem of a new length. `at_length(n)` returns the problem.
template <typename AtLength, typename Arrays>
void measure_new_lengths(const char* name, Engine& engine, const AtLength& at_length, const Arrays& given) {
  constexpr std::int64_t first = 2000, count = 900;  // one bucket
  std::vector<double> prepare_us, call_us;
  const auto time_us = [](std::vector<double>& samples, const auto& body) {
    const auto start = Clock::now();
    body();
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  };
  engine.run(at_length(first), given);
  for (std::int64_t n = first + 1; n < first + count; n += 2) {
    time_us(prepare_us, [&] { engine.prepare(at_length(n)); });
    time_us(call_us, [&] { engine.run(at_length(n + 1), given); });
  }
  std::printf("%-16s %8.1f %8.1f\n", name, median(prepare_us), median(call_us));
}

void run() {
  EngineOptions options;
  options.mode = Mode::off;
  const std::unique_ptr<Engine> engine = idle_engine(options);
  const DeviceBuffer memory(*engine, 1 << 20);
  auto* const at = static_cast<float*>(memory.data());
  std::printf("nanoseconds      kernel     plan one-shot one-shot - kernel\n");

  const SoftmaxProblem softmax = SoftmaxProblem::contiguous(4, 64, DType::f32);
  measure("softmax", *engine, softmax, {.x = at, .y = at + 4096}, {at, at + 4096});

  const CrossEntropyProblem loss = CrossEntropyProblem::contiguous(4, 64, DType::f32);
  auto* const targets = reinterpret_cast<std::int64_t*>(at + 8192);
  measure("cross_entropy", *engine, loss, {.logits = at, .targets = targets, .loss = at + 16384, .lse = at + 20480},
          {at, targets, at + 16384, at + 20480});

  AttentionProblem attention;
  attention.heads = 4;
  attention.seq_q = 8;
  attention.head_dim = 64;
  measure("attention", *engine, attention, {.q = at, .k = at + 4096, .v = at + 8192, .o = at + 12288, .lse = at + 16384},
          {at, at + 4096, at + 8192, at + 12288, at + 16384});

  std::printf("\nmicroseconds\nnew lengths       prepare one-shot\n");
  const auto rows = [](std::int64_t n) { return SoftmaxProblem::contiguous(n, 64, DType::f32); };
  measure_new_lengths("softmax rows", *engine, rows, SoftmaxArrays{.x = at, .y = at + 4096 * 64});
  const auto tokens = [](std::int64_t n) { return CrossEntropyProblem::contiguous(n, 64, DType::f32); };
  measure_new_lengths("loss rows", *engine, tokens,
                      CrossEntropyArrays{.logits = at, .targets = targets, .loss = at + 200000, .lse = at + 210000});
  const auto decode = [](std::int64_t n) {
    AttentionProblem problem;
    problem.heads = 8;
    problem.seq_q = 1;
    problem.seq_kv = n;
    problem.head_dim = 128;
    return problem;
  };
  auto* const space = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  const auto region = [&](int i) { return space + (std::int64_t{i} << 32); };
  const AttentionArrays given{.q = region(0), .k = region(1), .v = region(2), .o = region(3)};
  measure_new_lengths("decode seq_kv", *engine, decode, given);
  const auto training = [](std::int64_t n) {
    AttentionProblem problem;
    problem.heads = 8;
    problem.seq_q = n;
    problem.head_dim = 128;
    problem.causal = Causal::top_left;
    return problem;
  };
  measure_new_lengths("attention seq", *engine, training, given);
}

}  // namespace
}  // namespace tunesmith::bench

int main() {
  tunesmith::bench::run();
  return 0;
}
