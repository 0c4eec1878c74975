// tunesmith_host_calls [--shapes N]: host time of launches on the idle platform, so without a GPU and without the driver's
// share: a kernel alone, a prepared plan, a one-shot call. Medians of interleaved rounds. With --shapes: calls N distinct
// shapes instead (at least 50000, such as 1000000), and fails if memory grows with them.

#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
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

/// One token of a decoder with this many keys.
AttentionProblem decode(std::int64_t seq_kv) {
  AttentionProblem problem;
  problem.heads = 8;
  problem.seq_q = 1;
  problem.seq_kv = seq_kv;
  problem.head_dim = 128;
  return problem;
}

/// The backward pass of 16 queries, which has a workspace.
AttentionBackwardProblem decode_backward(std::int64_t seq_kv) {
  AttentionBackwardProblem problem;
  static_cast<AttentionProblem&>(problem) = decode(seq_kv);
  problem.seq_q = 16;
  return problem;
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

void run_new_lengths(Mode mode) {
  EngineOptions options;
  options.mode = mode;
  const std::unique_ptr<Engine> engine = idle_engine(options);
  // Addresses alone matter.
  const auto region = [](std::uintptr_t i) { return reinterpret_cast<std::byte*>(i << 40); };
  std::printf("\nmicroseconds, mode %s\nnew lengths       prepare one-shot\n", std::string(name(mode)).c_str());

  const auto rows = [](std::int64_t n) { return SoftmaxProblem::contiguous(n, 64, DType::f32); };
  measure_new_lengths("softmax rows", *engine, rows, SoftmaxArrays{.x = region(1), .y = region(2)});
  const auto tokens = [](std::int64_t n) { return CrossEntropyProblem::contiguous(n, 64, DType::f32); };
  CrossEntropyArrays loss{.logits = region(1), .targets = region(2)};
  loss.loss = reinterpret_cast<float*>(region(3));
  loss.lse = reinterpret_cast<float*>(region(4));
  measure_new_lengths("loss rows", *engine, tokens, loss);
  const AttentionArrays arrays{.q = region(1), .k = region(2), .v = region(3), .o = region(4)};
  measure_new_lengths("decode seq_kv", *engine, decode, arrays);
  const auto training = [](std::int64_t n) {
    AttentionProblem problem;
    problem.heads = 8;
    problem.seq_q = n;
    problem.head_dim = 128;
    problem.causal = Causal::top_left;
    return problem;
  };
  measure_new_lengths("attention seq", *engine, training, arrays);
}

/// Calls `shapes` distinct shapes, a tenth of them attention and every fourth of these its backward pass, and prints how
/// memory grows. Returns whether it stays bounded.
bool run_shapes(std::int64_t shapes) {
  const std::int64_t lengths = shapes / 10;
  EngineOptions options;
  options.mode = Mode::replay;  // kernels that do nothing cannot be verified, so they cannot be tuned
  options.plan_capacity = std::min(options.plan_capacity, static_cast<std::size_t>(shapes) / 50);
  const std::unique_ptr<Engine> engine = idle_engine(options);
  const auto at = [](std::uintptr_t i) { return reinterpret_cast<std::byte*>(i << 40); };
  const AttentionArrays arrays{.q = at(1), .k = at(2), .v = at(3), .o = at(4)};
  AttentionBackwardArrays backward_arrays;
  backward_arrays.q = at(1), backward_arrays.k = at(2), backward_arrays.v = at(3), backward_arrays.o = at(4);
  backward_arrays.lse = reinterpret_cast<float*>(at(5)), backward_arrays.dout = at(6);
  backward_arrays.dq = at(7), backward_arrays.dk = at(8), backward_arrays.dv = at(9);
  std::printf("shapes called   MiB in use\n");
  std::size_t warm = 0, bytes = 0;
  for (std::int64_t part = 0; part < 10; ++part) {
    for (std::int64_t n = 1; n <= lengths; ++n) {
      if (part == 0)
        n % 4 == 0 ? engine->run(decode_backward(n), backward_arrays) : engine->run(decode(n), arrays);
      else
        engine->run(SoftmaxProblem::contiguous(part * lengths + n, 64, DType::f32), SoftmaxArrays{.x = at(1), .y = at(2)});
    }
    bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
    if (part == 2) warm = bytes;  // plans of softmax have filled the engine's capacity
    const std::int64_t called = (part + 1) * lengths;
    std::printf("%13lld   %10.1f\n", static_cast<long long>(called), static_cast<double>(bytes) / (1 << 20));
  }
  // The number of plans varies by a few percent. Anything kept for each shape would take at least the 16 bytes of a hash and
  // a pointer, in seven tenths of the shapes.
  return bytes < warm + warm / 20 + static_cast<std::size_t>(shapes) * 4;
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
}

}  // namespace
}  // namespace tunesmith::bench

int main(int argc, char** argv) {
  if (argc > 1) {
    const long shapes = argc == 3 && std::string_view(argv[1]) == "--shapes" ? std::strtol(argv[2], nullptr, 10) : 0;
    if (shapes >= 50000) return tunesmith::bench::run_shapes(shapes) ? 0 : 1;
    std::fputs("usage: tunesmith_host_calls [--shapes N], N from 50000\n", stderr);
    return 2;
  }
  tunesmith::bench::run();
  for (const tunesmith::Mode mode : {tunesmith::Mode::off, tunesmith::Mode::replay}) tunesmith::bench::run_new_lengths(mode);
  return 0;
}
