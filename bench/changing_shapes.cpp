// tunesmith_changing_shapes [decode|lengths|widths|training|buckets]...: what a program waits for whose shapes change from
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
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "api/engine/plan_state.h"
#include "bench/gpu.h"
#include "tuner/select.h"
#include "tuner/tune.h"

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
  std::vector<NamedArray> named_arrays() const {
    return {{"q", q_.data()}, {"k", k_.data()}, {"v", v_.data()}, {"o", o_.data()}};
  }

 private:
  static constexpr std::int64_t heads = 32, kv_heads = 8, head_dim = 128;
  std::int64_t batch_;
  DeviceBuffer q_, k_, v_, o_;
};

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
  const std::vector<void*> arrays = loop.launch_order();
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
/// keys were tuned for at most `pending_s` seconds.
template <typename Calls>
void cold_and_warm(const char* what, double pending_s, const Calls& calls) {
  std::printf("%s\n", what);
  const TemporaryCache cache;
  for (const char* state : {"empty cache", "warm cache"}) {
    const std::unique_ptr<Engine> engine = cache.engine();
    HostTimes times;
    calls(*engine, times);
    engine->synchronize();
    std::printf("  %s: median call %.1f us, total %.2f s\n", state, times.median_us(), times.total_s());
    print_tuning(*engine);
    if (pending_s > 0 && state == std::string_view("empty cache")) engine->tune_pending(pending_s);
  }
}

/// Softmax and cross-entropy of random widths.
void widths() {
  constexpr int count = 1000;
  constexpr std::int64_t rows = 256, most_cols = 131072;
  cold_and_warm("1000 random widths from 1 to 131072, softmax and cross-entropy, 256 rows, bf16", 0,
                [&](Engine& engine, HostTimes& times) {
                  const DeviceBuffer x = random_numbers(engine, DType::bf16, rows * most_cols, 1);
                  const DeviceBuffer y(engine, rows * most_cols * 2), targets(engine, rows * 8), loss(engine, 4),
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
      90, [&](Engine& engine, HostTimes& times) {
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

/// The worst ratios that buckets() measured.
struct BucketSummary {
  int buckets = 0, beyond = 0;
  double worst = 0, noise = 0;
};

/// Returns the device time of each work in microseconds, interleaved and with the L2 cache flushed: the mean of the middle
/// half of many rounds. Medians of 51 rounds of one kernel of 5 us differed by up to 7% on an H200.
std::vector<double> mean_us(Device& device, const std::vector<std::function<void(Stream)>>& works) {
  constexpr std::size_t warm_up = 3, rounds = 200, dropped = rounds / 4;  // at each end
  std::vector<std::vector<double>> samples(works.size());
  for (std::size_t round = 0; round < warm_up + rounds; ++round) {
    const std::vector<double> us = device.time_us(works, true);
    for (std::size_t i = 0; i < works.size() && round >= warm_up; ++i) samples[i].push_back(us[i]);
  }
  std::vector<double> means;
  for (std::vector<double>& of_work : samples) {
    std::ranges::sort(of_work);
    double sum = 0;
    for (std::size_t i = dropped; i < rounds - dropped; ++i) sum += of_work[i];
    means.push_back(sum / static_cast<double>(rounds - 2 * dropped));
  }
  return means;
}

/// Returns the arrays in the order of a launch; nullptr for those that are not given.
std::vector<void*> launch_order(const Plan& plan, const std::vector<NamedArray>& arrays) {
  std::vector<void*> addresses;
  for (const ArrayInfo& info : plan.arrays()) {
    const auto given = std::ranges::find(arrays, std::string_view(info.name), &NamedArray::name);
    addresses.push_back(given == arrays.end() ? nullptr : const_cast<void*>(given->address));
  }
  return addresses;
}

/// Tunes each length of one key, and runs each length with the configurations of all of them. A key takes the configuration
/// of its first length, so any of them may be used for any other.
template <typename MakeProblem>
void measure_key(Engine& engine, const char* what, const std::vector<std::int64_t>& lengths, const MakeProblem& problem,
                 const std::vector<NamedArray>& arrays, BucketSummary& summary) {
  constexpr double allowed = 1.03;
  TuneOptions options;
  options.effort = Effort::quick;
  options.force = true;
  std::vector<Config> winners;
  for (const std::int64_t length : lengths) {
    const Problem generic = to_problem(problem(length));
    const TuneResult result = tune(*find_op(generic.op).parse(generic), engine.parts().bench(), options);
    winners.push_back({parse_fields(result.record.config, "tuned config")});
  }
  double worst = 1, noise = 1;
  std::int64_t tuned_at = lengths.back(), used_at = lengths.back();
  for (std::size_t used = 0; used < lengths.size(); ++used) {
    // The length's own configuration twice, for the noise, then the different ones of the other lengths.
    std::vector<Plan> plans(2, engine.prepare(problem(lengths[used]), {.config = winners[used]}));
    std::vector<std::int64_t> tuned_lengths(2, lengths[used]);
    for (std::size_t tuned = 0; tuned < lengths.size(); ++tuned) {
      if (winners[tuned] == winners[used]) continue;
      plans.push_back(engine.prepare(problem(lengths[used]), {.config = winners[tuned]}));
      tuned_lengths.push_back(lengths[tuned]);
    }
    std::vector<std::function<void(Stream)>> works;
    for (const Plan& plan : plans)
      works.emplace_back([plan, addresses = launch_order(plan, arrays)](Stream stream) { plan.launch(addresses, stream); });
    const std::vector<double> us = mean_us(*engine.parts().device, works);
    noise = std::max({noise, us[0] / us[1], us[1] / us[0]});
    for (std::size_t i = 2; i < us.size(); ++i) {
      const double ratio = us[i] / ((us[0] + us[1]) / 2);
      if (ratio <= worst) continue;
      worst = ratio;
      tuned_at = tuned_lengths[i];
      used_at = lengths[used];
    }
  }
  ++summary.buckets;
  if (worst > allowed) ++summary.beyond;
  summary.worst = std::max(summary.worst, worst);
  summary.noise = std::max(summary.noise, noise);
  std::printf("  %s, %zu lengths from %lld to %lld: worst %.3f (tuned at %lld, used at %lld), noise %.3f\n", what,
              lengths.size(), static_cast<long long>(lengths.front()), static_cast<long long>(lengths.back()), worst,
              static_cast<long long>(tuned_at), static_cast<long long>(used_at), noise);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    std::printf("      %lld: %s\n", static_cast<long long>(lengths[i]), winners[i].text().c_str());
  std::fflush(stdout);
}

/// Divides lengths of one bucket by their keys and measures each key with several of them.
template <typename MakeProblem>
void measure_bucket(Engine& engine, const char* what, const std::vector<std::int64_t>& lengths, const MakeProblem& problem,
                    const std::vector<NamedArray>& arrays, BucketSummary& summary) {
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::vector<std::int64_t>> keys;
  for (const std::int64_t length : lengths) {
    const Problem generic = to_problem(problem(length));
    const KeyParts key = find_op(generic.op).parse(generic)->key();
    keys[{key.problem_class, tuned_n_cols(key), key.rows_bucket}].push_back(length);
  }
  for (const auto& [key, of_key] : keys)
    if (of_key.size() > 1) measure_key(engine, what, of_key, problem, arrays, summary);
}

/// Returns both ends of a bucket and lengths between them.
std::vector<std::int64_t> sample(std::int64_t first, std::int64_t last) {
  constexpr int between = 4;
  std::vector<std::int64_t> lengths{first};
  std::mt19937_64 random(static_cast<std::uint64_t>(last));
  std::uniform_int_distribution<std::int64_t> length(first + 1, last - 1);
  for (int i = 0; i < between; ++i) lengths.push_back(length(random));
  lengths.push_back(last);
  std::ranges::sort(lengths);
  return lengths;
}

/// Returns the first size of the bucket, of two an octave, that ends at `end`.
std::int64_t first_of_bucket(std::int64_t end) { return (end % 3 == 0 ? end * 2 / 3 : end * 3 / 4) + 1; }

/// Attention and its backward pass: sequence lengths of several batches, and batches of one length.
void measure_attention_buckets(Engine& engine, BucketSummary& summary) {
  constexpr std::int64_t heads = 16, head_dim = 128, most = 2048, most_batch = 5;  // 8 of 1024 positions are fewer
  const std::int64_t elements = most_batch * most * heads * head_dim;
  const auto bytes = static_cast<std::size_t>(elements) * 2;
  const DeviceBuffer q = random_numbers(engine, DType::bf16, elements, 1),
                     dout = random_numbers(engine, DType::bf16, elements, 1, 2);
  const DeviceBuffer o(engine, bytes), dq(engine, bytes), dk(engine, bytes), dv(engine, bytes),
      lse(engine, most_batch * heads * most * 4);
  const std::vector<NamedArray> forward{{"q", q.data()}, {"k", q.data()}, {"v", q.data()}, {"o", o.data()}};
  // Any sums of exponentials take the same time, unless weights overflow.
  const std::vector<float> large(lse.bytes() / 4, 30.0f);
  engine.parts().device->copy_to_device(lse.data(), large.data(), lse.bytes());
  std::vector<NamedArray> backward = forward;
  for (const auto& [name, array] : std::vector<std::pair<const char*, const DeviceBuffer*>>{
           {"lse", &lse}, {"dout", &dout}, {"dq", &dq}, {"dk", &dk}, {"dv", &dv}})
    backward.push_back({name, array->data()});
  const auto problem = [&](std::int64_t batch, std::int64_t length, Causal causal) {
    AttentionBackwardProblem attention;
    attention.batch = batch;
    attention.heads = heads;
    attention.seq_q = length;
    attention.head_dim = head_dim;
    attention.causal = causal;
    return attention;
  };
  const auto measure = [&](const std::string& what, const std::vector<std::int64_t>& sizes, const auto& of_size) {
    measure_bucket(
        engine, what.c_str(), sizes,
        [&](std::int64_t size) {
          const AttentionBackwardProblem backward_problem = of_size(size);
          const AttentionProblem& forward_problem = backward_problem;
          return forward_problem;
        },
        forward, summary);
    measure_bucket(engine, (what + ", backward").c_str(), sizes, of_size, backward, summary);
  };
  for (const Causal causal : {Causal::top_left, Causal::none}) {
    const std::string name = causal == Causal::none ? "attention, 16 heads" : "causal attention, 16 heads";
    for (const std::int64_t end : {1024, 1536, 2048})
      measure(name + ", batch 4, sequence", sample(first_of_bucket(end), end),
              [&](std::int64_t length) { return problem(4, length, causal); });
    for (const std::int64_t batch : {3, 5})
      measure(name + ", batch " + std::to_string(batch) + ", sequence", sample(first_of_bucket(2048), 2048),
              [&](std::int64_t length) { return problem(batch, length, causal); });
    measure(name + ", 1024 positions, batch", {3, 4, 5, 7, 8},
            [&](std::int64_t batch) { return problem(batch, 1024, causal); });
  }
}

/// How far the configuration of one length of a bucket is from the own tuning of another length in it.
void buckets() {
  EngineOptions options = EngineOptions::from_environment();
  options.cache_file.clear();
  options.system_caches.clear();
  options.shipped_cache.clear();
  const std::unique_ptr<Engine> engine = open_gpu(options);
  BucketSummary summary;
  std::printf("buckets: time with the configuration of another length of the bucket over that with the length's own\n");

  measure_attention_buckets(*engine, summary);

  constexpr std::int64_t rows = 32768, cols = 4096;
  const DeviceBuffer x = random_numbers(*engine, DType::bf16, rows * cols, 1), y(*engine, rows * cols * 2);
  for (const std::int64_t end : {256, 3072, 4096, 32768})
    measure_bucket(
        *engine, "softmax of 4096 columns, rows", sample(first_of_bucket(end), end),
        [&](std::int64_t length) { return SoftmaxProblem::contiguous(length, cols, DType::bf16); },
        {{"x", x.data()}, {"y", y.data()}}, summary);

  const DeviceBuffer targets(*engine, rows * 8), loss(*engine, 4), lse(*engine, rows * 4);
  engine->parts().device->fill(targets.data(), 0, targets.bytes());
  for (const std::int64_t end : {256, 3072, 4096, 32768})
    measure_bucket(
        *engine, "loss and gradient of 4096 columns, rows", sample(first_of_bucket(end), end),
        [&](std::int64_t length) {
          CrossEntropyProblem problem = CrossEntropyProblem::contiguous(length, cols, DType::bf16);
          problem.gradient = Gradient::separate;
          return problem;
        },
        {{"logits", x.data()},
         {"targets", targets.data()},
         {"loss", loss.data()},
         {"lse", lse.data()},
         {"dlogits", y.data()}},
        summary);

  for (const std::int64_t sequences : {1, 64}) {
    const DecodeLoop loop(*engine, sequences);
    for (const std::int64_t end : {768, 3072, 8192})
      measure_bucket(
          *engine, sequences == 1 ? "decode, batch 1, KV" : "decode, batch 64, KV",
          {first_of_bucket(end), end * 7 / 8 - 3, end}, [&](std::int64_t length) { return loop.problem(length); },
          loop.named_arrays(), summary);
  }
  std::printf("  %d keys, worst %.3f, %d beyond 1.03, noise up to %.3f\n", summary.buckets, summary.worst, summary.beyond,
              summary.noise);
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
  if (wanted("buckets")) buckets();
  if (wanted("widths")) widths();
  return 0;
}
