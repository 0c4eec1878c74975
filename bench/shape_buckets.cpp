// Buckets of lengths: the cost of one configuration for all lengths of a tuning key.

#include "bench/shape_buckets.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/engine/plan_state.h"
#include "bench/decode_loop.h"
#include "bench/gpu.h"
#include "tuner/select.h"
#include "tuner/tune.h"

namespace tunesmith::bench {
namespace {

/// The worst ratios that measure_buckets() found.
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
  constexpr std::int64_t heads = 16, head_dim = 128, most = 2048, max_batch = 5;  // 8 of 1024 positions are fewer
  const std::int64_t elements = max_batch * most * heads * head_dim;
  const auto bytes = static_cast<std::size_t>(elements) * 2;
  const DeviceBuffer q = random_numbers(engine, DType::bf16, elements, 1),
                     dout = random_numbers(engine, DType::bf16, elements, 1, 2);
  const DeviceBuffer o(engine, bytes), dq(engine, bytes), dk(engine, bytes), dv(engine, bytes),
      lse(engine, max_batch * heads * most * 4);
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

}  // namespace

void measure_buckets() {
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

}  // namespace tunesmith::bench
