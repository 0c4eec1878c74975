// Tunes many problems, each in its own process. While one is measured, the next one compiles.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "api/cli/tuning/gpus.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/pending_tuning.h"
#include "api/cli/tuning/prewarm.h"

namespace tunesmith::cli {
namespace {

/// A problem, and its tuning.
struct Started {
  const SpecProblem* asked;
  std::unique_ptr<PendingTuning> tuning;
};

/// The problems, the GPUs that take them, and the results.
class TuneAhead {
 public:
  TuneAhead(const std::vector<SpecProblem>& problems, const PrewarmSettings& settings, const EngineOptions& options,
            const TuneOne& tune_one)
      : problems_(problems),
        settings_(settings),
        options_(options),
        tune_one_(tune_one),
        devices_(settings.devices.empty() ? std::vector<std::string>{options.device} : settings.devices) {
    result_.problems = result_.total = static_cast<int>(problems.size());
  }

  PrewarmResult run() {
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < used_gpus(); ++i) others.emplace_back([this, i] { work(devices_[i]); });
      work(devices_.front());
    }
    if (fatal_) std::rethrow_exception(fatal_);
    result_.interrupted = interrupted();
    result_.wall_s = watch_.seconds();
    return std::move(result_);
  }

 private:
  /// Tunes on one GPU until no problem is left. While one is measured, the next one compiles.
  void work(const std::string& device) {
    std::optional<Started> current = start(device);
    while (current) {
      current->tuning->give_turn();
      current->tuning->wait_until_compiled();
      std::optional<Started> next = start(device);
      if (!collect(*current, device)) return;
      current = next ? std::move(next) : start(device);
    }
  }

  /// Starts the next problem, unless none is left.
  std::optional<Started> start(const std::string& device) try {
    std::unique_lock lock(mutex_);
    if (interrupted() || fatal_ || next_ == problems_.size()) return std::nullopt;
    const SpecProblem& asked = problems_[next_++];
    lock.unlock();
    return Started{&asked, std::make_unique<PendingTuning>(request_of(asked, device), tune_one_)};
  } catch (...) {  // must not leave the thread
    give_up();
    return std::nullopt;
  }

  TuneRequest request_of(const SpecProblem& asked, const std::string& device) const {
    TuneRequest request;
    request.problem = asked.problem;
    request.device = device;
    request.cache_file = options_.cache_file;
    request.effort = settings_.effort;
    request.force = settings_.force;
    request.budget_s = settings_.budget_s;
    request.jobs = compile_threads_per_gpu(settings_.jobs, used_gpus(), 1);
    return request;
  }

  /// GPUs that get at least one problem.
  std::size_t used_gpus() const { return std::min(devices_.size(), problems_.size()); }

  /// Waits for the end. Returns false if this GPU has to stop.
  bool collect(Started& started, const std::string& device) {
    const SpecProblem& asked = *started.asked;
    try {
      const Json answer = started.tuning->answer();
      const std::lock_guard lock(mutex_);
      ++result_.done;
      if (answer.value("measured", true)) ++result_.made;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) return false;
      if (error.code() == ErrorCode::no_device || error.code() == ErrorCode::no_compiler) {  // true for all problems
        give_up();
        return false;
      }
      const std::lock_guard lock(mutex_);
      result_.failures.push_back(failure_of(asked.problem.short_text(), asked, error));
    } catch (...) {  // must not leave the thread
      give_up();
      return false;
    }
    const std::lock_guard lock(mutex_);
    std::fprintf(stderr, "tunesmith: %d of %d%s: %s\n", result_.done + static_cast<int>(result_.failures.size()),
                 result_.total, devices_.size() == 1 ? "" : (" (" + device + ")").c_str(),
                 asked.problem.short_text().c_str());
    return !fatal_;
  }

  /// Keeps the exception that is being handled. Every GPU stops after its current problem.
  void give_up() {
    const std::lock_guard lock(mutex_);
    if (!fatal_) fatal_ = std::current_exception();
  }

  const Stopwatch watch_;
  const std::vector<SpecProblem>& problems_;
  const PrewarmSettings& settings_;
  const EngineOptions& options_;
  const TuneOne& tune_one_;
  const std::vector<std::string> devices_;
  std::mutex mutex_;  // guards the members below
  std::size_t next_ = 0;
  PrewarmResult result_;
  std::exception_ptr fatal_;
};

}  // namespace

PrewarmResult tune_ahead(const std::vector<SpecProblem>& problems, const PrewarmSettings& settings,
                         const EngineOptions& options, const TuneOne& tune_one) {
  return TuneAhead(problems, settings, options, tune_one).run();
}

}  // namespace tunesmith::cli
