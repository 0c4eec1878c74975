// tunesmith_changing_shapes [decode|widths|training|buckets]...: what a program waits for whose shapes change from call to
// call, in mode tune with the default options and an empty cache, and again with the cache that this leaves. Without names:
// all loops. Needs a GPU.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "api/engine/plan_state.h"
#include "bench/gpu.h"

namespace tunesmith::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A cache file that starts empty and is removed with its owner.
class TemporaryCache {
 public:
  TemporaryCache() : folder_(std::filesystem::temp_directory_path() / ("tunesmith-shapes-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TemporaryCache() { std::filesystem::remove_all(folder_); }
  TemporaryCache(const TemporaryCache&) = delete;
  TemporaryCache& operator=(const TemporaryCache&) = delete;

  /// An engine on the first GPU that finds no tuning results but those in this cache.
  std::unique_ptr<Engine> engine() const {
    EngineOptions options = EngineOptions::from_environment();
    options.mode = Mode::tune;
    options.cache_file = folder_ / "cache.db";
    options.system_caches.clear();
    options.shipped_cache.clear();
    return open_gpu(std::move(options));
  }

 private:
  std::filesystem::path folder_;
};

/// Host times of calls, with the device idle before each.
struct HostTimes {
  std::vector<double> us;

  template <typename Call>
  void time(Engine& engine, const Call& call) {
    engine.synchronize();
    const auto start = Clock::now();
    call();
    us.push_back(1e6 * seconds_since(start));
  }
  double median_us() const { return bench::median(us); }
  double total_s() const {
    double sum = 0;
    for (const double one : us) sum += one;
    return sum / 1e6;
  }
};

void print_tuning(const Engine& engine) {
  const TuningStatus status = engine.tuning();
  std::printf("    tuned %lld keys in %.1f s; %lld keys wait, %lld failed; %lld plans are not tuned\n",
              static_cast<long long>(status.tuned_keys), status.tune_s, static_cast<long long>(status.pending_keys),
              static_cast<long long>(status.failed_keys), static_cast<long long>(status.untuned_plans));
}

/// Decoding against a KV cache with room for `most` positions: every token has one key more.
class DecodeLoop {
 public:
  static constexpr std::int64_t most = 8192;

  DecodeLoop(Engine& engine, std::int64_t batch)
      : batch_(batch),
        q_(random_numbers(engine, DType::bf16, batch * heads * head_dim, 1)),
        k_(random_numbers(engine, DType::bf16, batch * most * kv_heads * head_dim, 1)),
        v_(random_numbers(engine, DType::bf16, batch * most * kv_heads * head_dim, 1)),
        o_(engine, static_cast<std::size_t>(batch * heads * head_dim * 2)) {}

  AttentionProblem problem(std::int64_t seq_kv) const {
    AttentionProblem problem;
    problem.batch = batch_;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.seq_q = 1;
    problem.seq_kv = seq_kv;
    problem.head_dim = head_dim;
    problem.k_strides.batch = problem.v_strides.batch = most * kv_heads * head_dim;
    return problem;
  }
  AttentionArrays arrays() const { return {.q = q_.data(), .k = k_.data(), .v = v_.data(), .o = o_.data()}; }
  std::vector<void*> launch_order() const { return {q_.data(), k_.data(), v_.data(), o_.data(), nullptr}; }

 private:
  static constexpr std::int64_t heads = 32, kv_heads = 8, head_dim = 128;
  std::int64_t batch_;
  DeviceBuffer q_, k_, v_, o_;
};

void decode(std::int64_t batch) {
  const TemporaryCache cache;
  const auto start = Clock::now();
  const std::unique_ptr<Engine> engine = cache.engine();
  const DecodeLoop loop(*engine, batch);
  HostTimes first, again, launch;
  for (std::int64_t kv = 1; kv <= DecodeLoop::most; ++kv)
    first.time(*engine, [&] { engine->run(loop.problem(kv), loop.arrays()); });
  engine->synchronize();
  const double first_pass_s = seconds_since(start);
  const Plan plan = engine->prepare(loop.problem(1000));
  const std::vector<void*> arrays = loop.launch_order();
  for (std::int64_t kv = 1; kv <= DecodeLoop::most; ++kv) {
    launch.time(*engine, [&] { plan.launch(arrays); });
    again.time(*engine, [&] { engine->run(loop.problem(kv), loop.arrays()); });
  }
  std::printf("decode, batch %lld, KV 1 to %lld\n", static_cast<long long>(batch), static_cast<long long>(DecodeLoop::most));
  std::printf("  empty cache: %.2f s from engine to last token; median call %.1f us\n", first_pass_s, first.median_us());
  print_tuning(*engine);
  std::printf("  second pass: %.2f us a token over a plan's launch of %.2f us\n", again.median_us() - launch.median_us(),
              launch.median_us());
}

/// Prints the host time of `calls(engine, times)` with an empty cache and with the cache that this leaves.
template <typename Calls>
void cold_and_warm(const char* what, const Calls& calls) {
  std::printf("%s\n", what);
  const TemporaryCache cache;
  for (const char* state : {"empty cache", "warm cache"}) {
    const std::unique_ptr<Engine> engine = cache.engine();
    HostTimes times;
    calls(*engine, times);
    engine->synchronize();
    std::printf("  %s: median call %.1f us, total %.2f s\n", state, times.median_us(), times.total_s());
    print_tuning(*engine);
  }
}

/// Softmax and cross-entropy of random widths.
void widths() {
  constexpr int count = 1000;
  constexpr std::int64_t rows = 256, most_cols = 131072;
  cold_and_warm("1000 random widths from 1 to 131072, softmax and cross-entropy, 256 rows, bf16", [&](Engine& engine,
                                                                                                      HostTimes& times) {
    const DeviceBuffer x = random_numbers(engine, DType::bf16, rows * most_cols, 1);
    const DeviceBuffer y(engine, rows * most_cols * 2), targets(engine, rows * 8), loss(engine, 4), lse(engine, rows * 4);
    engine.parts().device->fill(targets.data(), 0, targets.bytes());
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> exponent(0, 17);
    for (int i = 0; i < count; ++i) {
      const auto cols = static_cast<std::int64_t>(std::exp2(exponent(random)));
      times.time(engine, [&] { engine.softmax(x.data(), y.data(), SoftmaxProblem::contiguous(rows, cols, DType::bf16)); });
      times.time(engine, [&] {
        engine.run(CrossEntropyProblem::contiguous(rows, cols, DType::bf16),
                   {.logits = x.data(), .targets = targets.data(), .loss = loss.data(), .lse = lse.data()});
      });
    }
  });
}

/// Attention forward and loss with another sequence length at each step.
void training() {
  constexpr int steps = 200;
  constexpr std::int64_t batch = 4, heads = 16, head_dim = 128, most = 2048, vocabulary = 32000;
  cold_and_warm(
      "training: 200 steps with sequence lengths from 256 to 2048, causal attention and loss, bf16",
      [&](Engine& engine, HostTimes& times) {
        const std::int64_t elements = batch * most * heads * head_dim;
        const DeviceBuffer q = random_numbers(engine, DType::bf16, elements, 1),
                           logits = random_numbers(engine, DType::bf16, batch * most * vocabulary, 1);
        const DeviceBuffer o(engine, elements * 2), targets(engine, batch * most * 8), loss(engine, 4),
            lse(engine, batch * most * 4);
        engine.parts().device->fill(targets.data(), 0, targets.bytes());
        std::mt19937_64 random(1);
        std::uniform_int_distribution<std::int64_t> length(256, most);
        for (int i = 0; i < steps; ++i) {
          AttentionProblem attention;
          attention.batch = batch;
          attention.heads = heads;
          attention.seq_q = length(random);
          attention.head_dim = head_dim;
          attention.causal = Causal::top_left;
          times.time(engine, [&] { engine.run(attention, {.q = q.data(), .k = q.data(), .v = q.data(), .o = o.data()}); });
          times.time(engine, [&] {
            engine.run(CrossEntropyProblem::contiguous(batch * attention.seq_q, vocabulary, DType::bf16),
                       {.logits = logits.data(), .targets = targets.data(), .loss = loss.data(), .lse = lse.data()});
          });
        }
      });
}

/// How far the configuration of a bucket, tuned at its upper end, is from each length's own tuning.
void buckets() {
  EngineOptions options = EngineOptions::from_environment();
  options.mode = Mode::tune;
  options.tune_share = 1;
  options.cache_file.clear();
  options.system_caches.clear();
  options.shipped_cache.clear();
  for (const std::int64_t batch : {1, 64}) {
    const std::unique_ptr<Engine> engine = open_gpu(options);
    const DecodeLoop loop(*engine, batch);
    const std::vector<void*> arrays = loop.launch_order();
    std::printf("buckets, decode, batch %lld: time with the bucket's configuration over that with the length's own\n",
                static_cast<long long>(batch));
    for (const std::int64_t end : {768, 3072, 8192}) {
      const Plan of_end = engine->prepare(loop.problem(end));
      for (const std::int64_t kv : {end * 2 / 3 + 1, end * 3 / 4 + 1, end * 7 / 8 - 3}) {
        const std::unique_ptr<Engine> own_engine = open_gpu(options);
        const Plan own = engine->prepare(loop.problem(kv), {.config = own_engine->prepare(loop.problem(kv)).config()});
        const Plan bucket = engine->prepare(loop.problem(kv), {.config = of_end.config()});
        const std::vector<double> us = interleaved_us(
            *engine->parts().device,
            {[&](Stream stream) { bucket.launch(arrays, stream); }, [&](Stream stream) { own.launch(arrays, stream); }}, 51);
        std::printf("  KV %5lld of bucket %5lld: %.3f (%.1f us)\n", static_cast<long long>(kv), static_cast<long long>(end),
                    us[0] / us[1], us[1]);
      }
    }
  }
}

}  // namespace
}  // namespace tunesmith::bench

int main(int argc, char** argv) {
  using namespace tunesmith::bench;
  const std::vector<std::string_view> names(argv + 1, argv + argc);
  for (const std::string_view name : names)
    if (name != "decode" && name != "widths" && name != "training" && name != "buckets") {
      std::fprintf(stderr, "tunesmith_changing_shapes: unknown loop '%s'; allowed: decode, widths, training, buckets\n",
                   std::string(name).c_str());
      return 2;
    }
  const auto wanted = [&](std::string_view name) { return names.empty() || std::ranges::find(names, name) != names.end(); };
  {
    const auto engine = open_gpu();
    if (engine == nullptr) {
      std::puts("tunesmith_changing_shapes: no GPU here, nothing measured");
      return 0;
    }
    std::printf("%s, default options, mode tune\n", engine->device().name.c_str());
  }
  if (wanted("decode")) decode(1), decode(64);
  if (wanted("training")) training();
  if (wanted("buckets")) buckets();
  if (wanted("widths")) widths();
  return 0;
}
