// tunesmith_changing_shapes [decode|lengths|widths|training|buckets]...: waiting times of a program whose shapes change from
// call to call, in mode tune with the default options and an empty cache, and again with the cache that this leaves. Without
// names: all loops. Needs a GPU.
//
// tunesmith_changing_shapes decode BATCH: a process that decodes once with an empty cache and ends, to be timed from
// outside.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/decode_loop.h"
#include "bench/gpu.h"
#include "bench/shape_buckets.h"

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
  std::unique_ptr<Engine> engine(Mode mode = Mode::tune) const {
    EngineOptions options = EngineOptions::from_environment();
    options.mode = mode;
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
  /// Returns the median of every `of`th call from `first` on.
  double median_us(std::size_t first, std::size_t of) const {
    std::vector<double> some;
    for (std::size_t i = first; i < us.size(); i += of) some.push_back(us[i]);
    return bench::median(some);
  }
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

/// Decodes all tokens and returns the host times of the calls.
HostTimes decode_once(Engine& engine, const DecodeLoop& loop) {
  HostTimes times;
  for (std::int64_t kv = 1; kv <= DecodeLoop::most; ++kv)
    times.time(engine, [&] { engine.run(loop.problem(kv), loop.arrays()); });
  engine.synchronize();
  return times;
}

/// Decodes once in a process that has done nothing else. Returns false without a GPU.
bool decode_in_fresh_process(std::int64_t batch) {
  const auto start = Clock::now();
  const TemporaryCache cache;
  const std::unique_ptr<Engine> engine = cache.engine();
  if (engine == nullptr) return false;
  const DecodeLoop loop(*engine, batch);
  const HostTimes times = decode_once(*engine, loop);
  std::printf("%s, default options, mode tune\ndecode, batch %lld, KV 1 to %lld, in a fresh process with an empty cache\n",
              engine->device().name.c_str(), static_cast<long long>(batch), static_cast<long long>(DecodeLoop::most));
  std::printf("  %.2f s from main() to the last token; median call %.1f us\n", seconds_since(start), times.median_us());
  print_tuning(*engine);
  return true;
}

void decode(std::int64_t batch) {
  const TemporaryCache cache;
  const auto start = Clock::now();
  const std::unique_ptr<Engine> engine = cache.engine();
  const DecodeLoop loop(*engine, batch);
  const HostTimes first = decode_once(*engine, loop);
  const double first_pass_s = seconds_since(start);
  HostTimes again, launch;
  const Plan plan = engine->prepare(loop.problem(1000));
  const std::vector<void*> arrays = launch_order(plan, loop.named_arrays());
  for (std::int64_t kv = 1; kv <= DecodeLoop::most; ++kv) {
    launch.time(*engine, [&] { plan.launch(arrays); });
    again.time(*engine, [&] { engine->run(loop.problem(kv), loop.arrays()); });
  }
  std::printf("decode, batch %lld, KV 1 to %lld\n", static_cast<long long>(batch), static_cast<long long>(DecodeLoop::most));
  std::printf("  empty cache, CUDA already started: %.2f s from engine to last token; median call %.1f us\n", first_pass_s,
              first.median_us());
  print_tuning(*engine);
  std::printf("  second pass: %.2f us a token over a plan's launch of %.2f us\n", again.median_us() - launch.median_us(),
              launch.median_us());
}

/// Host time of lengths that are new, in a bucket that is known.
void lengths() {
  constexpr std::int64_t first = 6145, last = 8192, middle = (first + last) / 2;
  std::printf("new lengths of a known bucket: decode, batch 1, KV %lld to %lld\n", static_cast<long long>(first),
              static_cast<long long>(last));
  for (const Mode mode : {Mode::tune, Mode::replay, Mode::off, Mode::later}) {
    const TemporaryCache cache;
    const std::unique_ptr<Engine> engine = cache.engine(mode);
    const DecodeLoop loop(*engine, 1);
    engine->run(loop.problem(first), loop.arrays());
    HostTimes prepared, called;
    for (std::int64_t kv = first + 1; kv < middle; ++kv) prepared.time(*engine, [&] { engine->prepare(loop.problem(kv)); });
    for (std::int64_t kv = middle; kv <= last; ++kv)
      called.time(*engine, [&] { engine->run(loop.problem(kv), loop.arrays()); });
    std::printf("  mode %s: prepare %.1f us, one-shot call %.1f us (medians)\n", std::string(name(mode)).c_str(),
                prepared.median_us(), called.median_us());
  }
}

/// Prints the host time of `calls(engine, times)` with an empty cache and with the cache that this leaves, after its pending
/// keys were tuned for at most `pending_s` seconds. `names`: the operations of each step, in order. With the warm cache,
/// makes all calls a second time: the difference to the first time is the overhead of new shapes, the second time the
/// overhead of launches.
template <typename Calls>
void cold_and_warm(const char* what, const std::vector<const char*>& names, double pending_s, const Calls& calls) {
  std::printf("%s\n", what);
  const TemporaryCache cache;
  for (const char* state : {"empty cache", "warm cache"}) {
    const std::unique_ptr<Engine> engine = cache.engine();
    HostTimes times;
    calls(*engine, times);
    engine->synchronize();
    std::printf("  %s: median call %.1f us (", state, times.median_us());
    for (std::size_t i = 0; i < names.size(); ++i)
      std::printf("%s%s %.1f", i == 0 ? "" : ", ", names[i], times.median_us(i, names.size()));
    std::printf("), total %.3f s", times.total_s());
    if (state == std::string_view("warm cache")) {
      HostTimes again;
      calls(*engine, again);
      std::printf(", %.3f s longer than the same calls again", times.total_s() - again.total_s());
    }
    std::printf("\n");
    print_tuning(*engine);
    if (pending_s > 0 && state == std::string_view("empty cache")) engine->tune_pending(pending_s);
  }
}

/// Softmax and cross-entropy of random widths.
void widths() {
  constexpr int count = 1000;
  constexpr std::int64_t rows = 256, max_cols = 131072;
  cold_and_warm("1000 random widths from 1 to 131072, softmax and cross-entropy, 256 rows, bf16",
                {"softmax", "cross_entropy"}, 0, [&](Engine& engine, HostTimes& times) {
                  const DeviceBuffer x = random_numbers(engine, DType::bf16, rows * max_cols, 1);
                  const DeviceBuffer y(engine, rows * max_cols * 2), targets(engine, rows * 8), loss(engine, 4),
                      lse(engine, rows * 4);
                  engine.parts().device->fill(targets.data(), 0, targets.bytes());
                  std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): every run has the same widths
                  std::uniform_real_distribution<double> exponent(0, 17);
                  for (int i = 0; i < count; ++i) {
                    const auto cols = static_cast<std::int64_t>(std::exp2(exponent(random)));
                    times.time(engine, [&] {
                      engine.softmax(x.data(), y.data(), SoftmaxProblem::contiguous(rows, cols, DType::bf16));
                    });
                    times.time(engine, [&] {
                      engine.run(CrossEntropyProblem::contiguous(rows, cols, DType::bf16),
                                 {.logits = x.data(), .targets = targets.data(), .loss = loss.data(), .lse = lse.data()});
                    });
                  }
                });
}

/// Attention, its backward pass, and the loss with its gradient in the place of the logits, with another sequence length at
/// each step.
void training() {
  constexpr int steps = 200;
  constexpr std::int64_t batch = 4, heads = 16, head_dim = 128, most = 2048, vocabulary = 32000;
  cold_and_warm(
      "training: 200 steps with sequence lengths from 256 to 2048, causal attention forward and backward and loss with its "
      "gradient, bf16",
      {"attention", "cross_entropy", "attention_backward"}, 90, [&](Engine& engine, HostTimes& times) {
        const std::int64_t elements = batch * most * heads * head_dim;
        const DeviceBuffer q = random_numbers(engine, DType::bf16, elements, 1),
                           logits = random_numbers(engine, DType::bf16, batch * most * vocabulary, 1);
        const DeviceBuffer dout = random_numbers(engine, DType::bf16, elements, 1, 2);
        const DeviceBuffer o(engine, elements * 2), dq(engine, elements * 2), dk(engine, elements * 2),
            dv(engine, elements * 2), attention_lse(engine, batch * heads * most * 4), targets(engine, batch * most * 8),
            loss(engine, 4), lse(engine, batch * most * 4);
        engine.parts().device->fill(targets.data(), 0, targets.bytes());
        std::mt19937_64 random(1);  // NOLINT(bugprone-random-generator-seed): every run has the same widths
        std::uniform_int_distribution<std::int64_t> length(256, most);
        for (int i = 0; i < steps; ++i) {
          AttentionProblem attention;
          attention.batch = batch;
          attention.heads = heads;
          attention.seq_q = length(random);
          attention.head_dim = head_dim;
          attention.causal = Causal::top_left;
          times.time(engine, [&] {
            engine.run(attention, {.q = q.data(),
                                   .k = q.data(),
                                   .v = q.data(),
                                   .o = o.data(),
                                   .lse = static_cast<float*>(attention_lse.data())});
          });
          CrossEntropyProblem cross_entropy =
              CrossEntropyProblem::contiguous(batch * attention.seq_q, vocabulary, DType::bf16);
          cross_entropy.gradient = Gradient::in_place;
          times.time(engine, [&] {
            engine.run(cross_entropy, {.logits = logits.data(),
                                       .targets = targets.data(),
                                       .loss = loss.data(),
                                       .lse = lse.data(),
                                       .dlogits = logits.data()});
          });
          AttentionBackwardProblem backward;
          static_cast<AttentionProblem&>(backward) = attention;
          AttentionBackwardArrays arrays;
          arrays.q = arrays.k = arrays.v = q.data();
          arrays.o = o.data();
          arrays.lse = static_cast<const float*>(attention_lse.data());
          arrays.dout = dout.data();
          arrays.dq = dq.data();
          arrays.dk = dk.data();
          arrays.dv = dv.data();
          times.time(engine, [&] { engine.run(backward, arrays); });
        }
      });
}

}  // namespace
}  // namespace tunesmith::bench

int main(int argc, char** argv) {
  using namespace tunesmith::bench;
  const std::vector<std::string_view> names(argv + 1, argv + argc);
  constexpr const char* no_gpu = "tunesmith_changing_shapes: no GPU here, nothing measured";
  if (names.size() == 2 && names[0] == "decode" && names[1].find_first_not_of("0123456789") == std::string_view::npos) {
    const std::int64_t batch = std::strtoll(argv[2], nullptr, 10);
    if (batch < 1 || batch > 64) {
      std::fprintf(stderr, "tunesmith_changing_shapes: the batch is %s; allowed: 1 to 64\n", argv[2]);
      return 2;
    }
    if (!decode_in_fresh_process(batch)) std::puts(no_gpu);
    return 0;
  }
  for (const std::string_view name : names)
    if (name != "decode" && name != "lengths" && name != "widths" && name != "training" && name != "buckets") {
      std::fprintf(stderr,
                   "tunesmith_changing_shapes: unknown loop '%s'; allowed: decode, lengths, widths, training, buckets\n",
                   std::string(name).c_str());
      return 2;
    }
  const auto wanted = [&](std::string_view name) { return names.empty() || std::ranges::find(names, name) != names.end(); };
  {
    const auto engine = open_gpu();
    if (engine == nullptr) {
      std::puts(no_gpu);
      return 0;
    }
    std::printf("%s, default options, mode tune\n", engine->device().name.c_str());
  }
  if (wanted("decode")) decode(1), decode(64);
  if (wanted("lengths")) lengths();
  if (wanted("training")) training();
  if (wanted("buckets")) measure_buckets();
  if (wanted("widths")) widths();
  return 0;
}
