// Waiting time of a new process, from a ready CUDA context to the first result: with an empty cache, with a warm cache file,
// with the plan in memory. Each sample is a process of its own: tunesmith_cold_start [repeats].

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/engine/parts.h"
#include "api/engine/plan_state.h"
#include "bench/gpu.h"
#include "jit/cuda/driver.h"
#include "tunesmith/buffer.h"

namespace {

using namespace tunesmith;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Phases in the order in which they run, milliseconds.
using Times = std::vector<std::pair<std::string, double>>;

constexpr const char* first_result = "first result";
constexpr const char* again = "plan in memory";

/// In a fresh process: makes the context, then times the engine from nothing to a result.
Times measure(const std::filesystem::path& cache_file, Mode mode) {
  const auto driver = Driver::open();
  driver->initialize();
  cuda::ContextHandle context = nullptr;
  driver->check((*driver)->primary_retain(&context, 0), "cuDevicePrimaryCtxRetain");
  driver->check((*driver)->ctx_push(context), "cuCtxPushCurrent");
  constexpr std::int64_t rows = 4096, cols = 4096;
  cuda::Address x = 0, y = 0;
  driver->check((*driver)->mem_alloc(&x, rows * cols * 4), "cuMemAlloc");
  driver->check((*driver)->mem_alloc(&y, rows * cols * 4), "cuMemAlloc");
  driver->check((*driver)->set_words(x, 0, rows * cols, nullptr), "cuMemsetD32Async");
  driver->check((*driver)->stream_synchronize(nullptr), "cuStreamSynchronize");

  EngineOptions options = EngineOptions::from_environment();
  options.device = "cuda";
  options.cache_file = cache_file;
  options.shipped_cache.clear();  // what it takes where nothing was tuned before
  options.mode = mode;
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, DType::f32);
  const auto* const input = reinterpret_cast<const void*>(x);  // NOLINT(performance-no-int-to-ptr): device addresses
  auto* const output = reinterpret_cast<void*>(y);             // NOLINT(performance-no-int-to-ptr)

  Times times;
  const auto start = Clock::now();
  Engine engine(options);
  times.emplace_back("open engine", milliseconds_since(start));
  auto last = Clock::now();
  // Caches are opened by the first lookup, here one that finds nothing.
  engine.parts().cache->find_record({});
  times.emplace_back("open caches", milliseconds_since(last));
  last = Clock::now();
  const Plan plan = engine.prepare(problem);
  const double prepare_ms = milliseconds_since(last);
  double accounted_ms = 0;
  for_each_phase([&](const char* phase, double Phases::*member) {
    times.emplace_back(phase, plan.state().phases.*member);
    accounted_ms += times.back().second;
  });
  times.emplace_back("rest of prepare", prepare_ms - accounted_ms);
  last = Clock::now();
  plan.launch(input, output);
  driver->check((*driver)->stream_synchronize(nullptr), "cuStreamSynchronize");
  times.emplace_back("launch and wait", milliseconds_since(last));
  times.emplace_back(first_result, milliseconds_since(start));

  engine.softmax(input, output, problem);  // enters the plan into the table of one-shot calls
  driver->check((*driver)->stream_synchronize(nullptr), "cuStreamSynchronize");
  last = Clock::now();
  engine.softmax(input, output, problem);
  driver->check((*driver)->stream_synchronize(nullptr), "cuStreamSynchronize");
  times.emplace_back(again, milliseconds_since(last));
  return times;
}

/// Runs measure() in a child process; exec'd anew so that nothing is warm but the disk.
Times in_new_process(const char* self, const std::filesystem::path& cache_file, Mode mode) {
  const std::string command = std::string("'") + self + "' --child '" + cache_file.string() + "' " + std::string(name(mode));
  FILE* const pipe = popen(command.c_str(), "r");  // NOLINT(bugprone-command-processor): runs this program
  Times times;
  char line[96];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) {  // "0.1234 phase"
    char* phase = line;
    const double ms = std::strtod(line, &phase);
    times.emplace_back(std::string(phase + 1, std::strcspn(phase + 1, "\n")), ms);
  }
  if (pipe == nullptr || pclose(pipe) != 0 || times.empty()) {
    std::fprintf(stderr, "tunesmith_cold_start: a child process failed\n");
    std::exit(1);
  }
  return times;
}

/// Phase by phase the median over samples that have the same phases.
Times medians(const std::vector<Times>& samples) {
  Times result = samples.front();
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::vector<double> values;
    for (const Times& sample : samples) values.push_back(sample.at(i).second);
    result[i].second = bench::median(values);
  }
  return result;
}

double of(const Times& times, std::string_view phase) {
  for (const auto& [name, ms] : times)
    if (name == phase) return ms;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--child") {
    try {
      for (const auto& [phase, ms] : measure(argv[2], parse_mode(argv[3]))) std::printf("%.4f %s\n", ms, phase.c_str());
      return 0;
    } catch (const Error& error) {
      std::fprintf(stderr, "tunesmith_cold_start: %s\n", error.what());
      return 1;
    }
  }
  if (bench::open_gpu() == nullptr) {
    std::puts("tunesmith_cold_start: no GPU here, nothing measured");
    return 0;
  }
  const long repeats = argc > 1 ? std::max(1L, std::strtol(argv[1], nullptr, 10)) : 5L;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tunesmith-cold-start-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::vector<Times> empty, warm;
  const std::filesystem::path tuned_cache = folder / "tuned.db";
  const Times tuned = in_new_process(argv[0], tuned_cache, Mode::tune);
  for (long i = 0; i < repeats; ++i) {
    const std::filesystem::path fresh = folder / (std::to_string(i) + ".db");
    empty.push_back(in_new_process(argv[0], fresh, Mode::off));
    warm.push_back(in_new_process(argv[0], tuned_cache, Mode::tune));
  }
  std::filesystem::remove_all(folder);

  const Times cold = medians(empty), loaded = medians(warm);
  std::printf("first result of softmax f32 4096x4096 from a ready context, median of %ld processes\n", repeats);
  std::printf("  empty cache, mode off       %9.2f ms\n", of(cold, first_result));
  std::printf("  empty cache, quick tuning   %9.2f ms (once)\n", of(tuned, first_result));
  std::printf("  warm cache file             %9.2f ms\n", of(loaded, first_result));
  std::printf("  plan in memory              %9.2f ms\n\n", of(loaded, again));
  std::printf("where it goes, ms      %10s %10s\n", "empty, off", "warm");
  for (const auto& [phase, ms] : cold) std::printf("  %-20s %10.3f %10.3f\n", phase.c_str(), ms, of(loaded, phase));
  return 0;
}
