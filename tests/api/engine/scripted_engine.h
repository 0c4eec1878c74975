#pragma once
// An engine whose clock, tuner and device are scripted, and problems whose shapes change from call to call.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/api/engine/fakes.h"
#include "tuner/select.h"

namespace tunesmith::fakes {

/// A scripted device whose kernels may take tensor maps; one of its streams may be captured.
class MappedDevice : public ScriptedDevice {
 public:
  std::atomic<Stream> captured{nullptr};

  bool is_capturing(Stream stream) const override {
    return ScriptedDevice::is_capturing(stream) || (stream != nullptr && stream == captured);
  }
  std::unique_ptr<PreparedTensorMap> prepare_tensor_map(const LaunchPlan::TensorMap&, const std::string&) override {
    struct IdleMap : PreparedTensorMap {
      void encode(void*, void*) const override {}
    };
    return std::make_unique<IdleMap>();
  }
};

/// An engine with a scripted clock and a scripted tuner. Tuning picks the default.
struct ScriptedEngine {
  explicit ScriptedEngine(EngineOptions options = {}) {
    options.log = [this](EngineOptions::Level level, const std::string& line) {
      const std::lock_guard lock(mutex);
      if (level == EngineOptions::Level::warning) warnings.push_back(line);
    };
    auto parts = std::make_unique<Engine::Parts>();
    parts->options = options;
    parts->device = device;
    parts->compiler = std::make_shared<ScriptedCompiler>();
    parts->cache = std::make_shared<Cache>(CacheOptions{});
    parts->now_s = [this] { return now_s.load(); };
    parts->tuner = [this](const ParsedProblem& problem) -> std::optional<Tuned> {
      const std::lock_guard lock(mutex);
      tuned.push_back(problem.problem().short_text());
      now_s = now_s + tuning_takes_s;
      if (failure) throw Error(*failure, "scripted failure");
      return Tuned{problem.default_config(device->info()), tuning_takes_s, 0};
    };
    engine = std::make_unique<Engine>(std::move(parts));
  }

  std::shared_ptr<MappedDevice> device = std::make_shared<MappedDevice>();
  std::mutex mutex;
  std::atomic<double> now_s{100};
  double tuning_takes_s = 2;
  std::optional<ErrorCode> failure;
  std::vector<std::string> tuned, warnings;
  std::unique_ptr<Engine> engine;
};

inline EngineOptions with_share(double share, double allowance_s) {
  EngineOptions options;
  options.tune_share = share;
  options.tune_allowance_s = allowance_s;
  return options;
}

inline AttentionProblem decode(std::int64_t seq_kv) {
  AttentionProblem problem;
  problem.heads = 8;
  problem.seq_q = 1;
  problem.seq_kv = seq_kv;
  problem.head_dim = 64;
  return problem;
}

inline AttentionBackwardProblem backward_of(std::int64_t seq, std::int64_t batch = 1) {
  AttentionBackwardProblem problem;
  problem.batch = batch;
  problem.heads = 8;
  problem.seq_q = seq;
  problem.head_dim = 64;
  problem.causal = Causal::top_left;
  return problem;
}

inline Problem layer_norm_of(std::int64_t rows, std::int64_t cols) {
  return find_op("layer_norm").normalize({"layer_norm", {{"rows", rows}, {"cols", cols}}});
}

/// Addresses that nothing reads: the kernels of the scripted device do nothing.
inline AttentionArrays far_arrays() {
  const auto at = [](std::uintptr_t i) { return reinterpret_cast<std::byte*>(i << 40); };
  return {.q = at(1), .k = at(2), .v = at(3), .o = at(4)};
}

}  // namespace tunesmith::fakes
