// Tunes many problems, each in its own process. While one is measured, the next one compiles.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "api/cli/tuning/gpus.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/prewarm.h"

namespace tunesmith::cli {
namespace {

using TuneOne = std::function<Json(const TuneRequest&)>;

/// One problem in its own process, which compiles at once and measures when it has the turn.
class Tuning {
 public:
  Tuning(const SpecProblem& asked, TuneRequest request, const TuneOne& tune_one)
      : asked_(asked), request_(std::move(request)) {
    request_.turn = &turn_;
    request_.compiled = [this] { finish(compiled_); };
    request_.stop = [this] { return unwanted_.load(); };
    thread_ = std::thread([this, &tune_one] {
      try {
        answer_ = tune_one(request_);
      } catch (...) {
        failure_ = std::current_exception();
      }
      finish(ended_);
    });
  }
  /// Stops it unless it has ended.
  ~Tuning() {
    unwanted_ = true;
    turn_.give();
    thread_.join();
  }
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  const SpecProblem& asked() const noexcept { return asked_; }
  void give_turn() noexcept { turn_.give(); }
  /// Also returns when it has ended.
  void wait_until_compiled() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return compiled_ || ended_; });
  }
  /// Waits for the end. Throws what `tune_one` threw.
  Json answer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    if (failure_) std::rethrow_exception(failure_);
    return answer_;
  }

 private:
  void finish(bool& step) {
    const std::lock_guard lock(mutex_);
    step = true;
    changed_.notify_all();
  }

  const SpecProblem& asked_;
  TuneRequest request_;
  Turn turn_;
  std::atomic<bool> unwanted_{false};
  std::mutex mutex_;  // guards the members below; the thread alone writes answer_ and failure_
  std::condition_variable changed_;
  bool compiled_ = false, ended_ = false;
  Json answer_;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// The problems, the GPUs that take them, and what became of them.
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
    std::unique_ptr<Tuning> current = start(device);
    while (current) {
      current->give_turn();
      current->wait_until_compiled();
      std::unique_ptr<Tuning> next;
      // With neighbours first, the record of the problem that is measured now may choose the candidates of the next one.
      if (!settings_.neighbours_first) next = start(device);
      if (!collect(*current, device)) return;
      current = next ? std::move(next) : start(device);
    }
  }

  /// Starts the next problem; returns null if none is left.
  std::unique_ptr<Tuning> start(const std::string& device) try {
    std::unique_lock lock(mutex_);
    if (interrupted() || fatal_ || next_ == problems_.size()) return nullptr;
    const SpecProblem& asked = problems_[next_++];
    lock.unlock();
    return std::make_unique<Tuning>(asked, request_of(asked, device), tune_one_);
  } catch (...) {  // must not leave the thread
    give_up();
    return nullptr;
  }

  TuneRequest request_of(const SpecProblem& asked, const std::string& device) const {
    TuneRequest request;
    request.problem = asked.problem;
    request.device = device;
    request.cache_file = options_.cache_file;
    request.effort = settings_.effort;
    request.force = settings_.force;
    request.neighbours_first = settings_.neighbours_first;
    request.budget_s = settings_.budget_s;
    request.jobs = compile_threads_per_gpu(settings_.jobs, used_gpus(), 1);
    return request;
  }

  /// Without those for which there is no problem.
  std::size_t used_gpus() const { return std::min(devices_.size(), problems_.size()); }

  /// Waits for the end. Returns false if this GPU has to stop.
  bool collect(Tuning& tuning, const std::string& device) {
    const SpecProblem& asked = tuning.asked();
    try {
      const Json answer = tuning.answer();
      const std::lock_guard lock(mutex_);
      ++result_.done;
      if (answer.value("measured", true)) ++result_.made;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) return false;
      if (error.code() == ErrorCode::no_device || error.code() == ErrorCode::no_compiler) {  // true for all of them
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
