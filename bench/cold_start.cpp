// What a new process waits for, from a ready CUDA context to the first result: with an empty cache, with a warm cache file,
// with the plan in memory. Each sample is a process of its own: tunesmith_cold_start [repeats].

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/gpu.h"
#include "jit/cuda/driver.h"
#include "tunesmith/buffer.h"

namespace {

using namespace tunesmith;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Sample {
  double first_ms, second_ms;
};

/// In a fresh process: makes the context, then times the engine from nothing to a result.
Sample measure(const std::filesystem::path& cache_file, Mode mode) {
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
  const auto start = Clock::now();
  Engine engine(options);
  engine.softmax(input, output, problem);
  driver->check((*driver)->stream_synchronize(nullptr), "cuStreamSynchronize");
  const double first_ms = milliseconds_since(start);
  const auto again = Clock::now();
  engine.softmax(input, output, problem);
  driver->check((*driver)->stream_synchronize(nullptr), "cuStreamSynchronize");
  return {first_ms, milliseconds_since(again)};
}

/// Runs measure() in a child process; exec'd anew so that nothing is warm but the disk.
Sample in_new_process(const char* self, const std::filesystem::path& cache_file, Mode mode) {
  const std::string command = std::string("'") + self + "' --child '" + cache_file.string() + "' " + std::string(name(mode));
  FILE* const pipe = popen(command.c_str(), "r");
  Sample sample{};
  const bool read = pipe != nullptr && std::fscanf(pipe, "%lf %lf", &sample.first_ms, &sample.second_ms) == 2;
  if (pipe == nullptr || pclose(pipe) != 0 || !read) {
    std::fprintf(stderr, "tunesmith_cold_start: a child process failed\n");
    std::exit(1);
  }
  return sample;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--child") {
    try {
      const Sample sample = measure(argv[2], parse_mode(argv[3]));
      std::printf("%.4f %.4f\n", sample.first_ms, sample.second_ms);
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
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tunesmith-cold-start-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::vector<double> empty, warm, tuned, memory;
  const std::filesystem::path tuned_cache = folder / "tuned.db";
  tuned.push_back(in_new_process(argv[0], tuned_cache, Mode::tune).first_ms);
  for (int i = 0; i < repeats; ++i) {
    const std::filesystem::path fresh = folder / (std::to_string(i) + ".db");
    empty.push_back(in_new_process(argv[0], fresh, Mode::off).first_ms);
    const Sample sample = in_new_process(argv[0], tuned_cache, Mode::tune);
    warm.push_back(sample.first_ms);
    memory.push_back(sample.second_ms);
  }
  std::filesystem::remove_all(folder);
  std::printf("first result of softmax f32 4096x4096 from a ready context, median of %d processes\n", repeats);
  std::printf("  empty cache, mode off       %9.2f ms\n", bench::median(empty));
  std::printf("  empty cache, quick tuning   %9.2f ms (once)\n", bench::median(tuned));
  std::printf("  warm cache file             %9.2f ms\n", bench::median(warm));
  std::printf("  plan in memory              %9.2f ms\n", bench::median(memory));
  return 0;
}
