#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/prewarm.h"

namespace tunesmith::cli {

PrewarmResult tune_ahead(const std::vector<SpecProblem>& problems, const PrewarmSettings& settings,
                         const EngineOptions& options, const std::function<Json(const TuneRequest&)>& tune_one) {
  const Stopwatch watch;
  const std::vector<std::string> devices =
      settings.devices.empty() ? std::vector<std::string>{options.device} : settings.devices;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads_of_all = settings.jobs > 0 ? settings.jobs : cores;
  PrewarmResult result;
  result.problems = result.total = static_cast<int>(problems.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // guards result and fatal
  std::exception_ptr fatal;
  const auto work = [&](const std::string& device) {
    for (std::size_t i = next++; i < problems.size() && !interrupted(); i = next++) {
      const SpecProblem& asked = problems[i];
      TuneRequest request;
      request.problem = asked.problem;
      request.device = device;
      request.cache_file = options.cache_file;
      request.effort = settings.effort;
      request.force = settings.force;
      request.neighbours_first = settings.neighbours_first;
      request.budget_s = settings.budget_s;
      request.jobs = devices.size() == 1 ? settings.jobs : std::max(1, threads_of_all / static_cast<int>(devices.size()));
      try {
        const Json answer = tune_one(request);
        const std::lock_guard lock(mutex);
        ++result.done;
        if (answer.value("measured", true)) ++result.made;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) return;
        const std::lock_guard lock(mutex);
        if (error.code() == ErrorCode::no_device || error.code() == ErrorCode::no_compiler) {  // true for all of them
          fatal = std::current_exception();
          next = problems.size();
          return;
        }
        result.failures.push_back(failure_of(asked.problem.short_text(), asked, error));
      } catch (...) {  // must not leave the thread
        const std::lock_guard lock(mutex);
        fatal = std::current_exception();
        next = problems.size();
        return;
      }
      const std::lock_guard lock(mutex);
      std::fprintf(stderr, "tunesmith: %d of %d%s: %s\n", result.done + static_cast<int>(result.failures.size()),
                   result.total, devices.size() == 1 ? "" : (" (" + device + ")").c_str(),
                   asked.problem.short_text().c_str());
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(devices.size(), problems.size()); ++i)
      others.emplace_back([&work, &device = devices[i]] { work(device); });
    work(devices.front());
  }
  if (fatal) std::rethrow_exception(fatal);
  result.interrupted = interrupted();
  result.wall_s = watch.seconds();
  return result;
}

}  // namespace tunesmith::cli
