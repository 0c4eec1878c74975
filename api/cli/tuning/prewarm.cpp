#include "api/cli/tuning/prewarm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/target.h"
#include "api/cli/report/progress.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/tune_child.h"
#include "api/engine/parts.h"
#include "templates/render.h"
#include "tuner/build.h"

namespace tunesmith::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One source to compile for one architecture.
struct Job {
  const Op* op;
  SpecProblem asked;
  Config config;
  Arch arch;

  std::string text() const { return asked.problem.short_text() + " (" + config.text() + ") for " + name(arch); }
};

/// Names the user sources of the problem, which are the likely cause.
PrewarmFailure failure_of(const std::string& what, const SpecProblem& asked, const Error& error) {
  return {what + (asked.sources.empty() ? "" : ", with " + asked.sources), error};
}

/// Lists each distinct source and architecture once: problems that differ only in rows share a binary.
std::vector<Job> list_jobs(const std::vector<SpecProblem>& problems, const std::vector<Target>& targets,
                           const PrewarmSettings& settings, const TemplateSet& templates, const EngineOptions& options) {
  std::vector<Job> jobs;
  std::set<std::pair<Arch, std::string>> seen;
  for (const Target& target : targets)
    for (const SpecProblem& asked : problems) {
      const Problem& problem = asked.problem;
      const Op& op = find_op(problem.op);
      std::vector<Config> configs{choose_config(op, problem, target, {}, templates, options)};
      // The engine's default runs columns without tuning results in the kernel of their bucket.
      if (options.specialize == Specialize::automatic)
        if (std::optional<Config> config = op.parse(problem)->capacity_config(target.device))
          configs.push_back(std::move(*config));
      if (settings.all_configs)
        for (Config& config : op.parse(problem)->search_space(target.device, settings.effort))
          configs.push_back(std::move(config));
      for (Config& config : configs)
        if (seen.emplace(target.device.arch, render(*op.parse(problem), config, templates)).second)
          jobs.push_back({&op, asked, std::move(config), target.device.arch});
    }
  return jobs;
}

void check_arch(const Compiler& compiler, const Arch& arch) {
  const std::vector<Arch> supported = compiler.supported_archs();
  if (std::ranges::find(supported, arch) != supported.end()) return;
  std::string names;
  for (const Arch& known : supported) names += (names.empty() ? "" : ", ") + name(known);
  throw Error(ErrorCode::unsupported, "--arch ", name(arch), " is not known to this NVRTC; it knows ", names);
}

/// Throws if the cache cannot store anything, because then the command has no effect.
void require_stored(Cache& cache, const PrewarmResult& result) {
  const CacheInfo info = cache.info();
  if (result.done > 0 && (!info.writable || info.binaries == 0))
    throw Error(ErrorCode::cache_failed, "nothing was kept: '", info.file.string(), "' cannot be written",
                info.why_not_writable.empty() ? "" : ": ", info.why_not_writable);
}

}  // namespace

PrewarmResult compile_ahead(const std::vector<SpecProblem>& problems, const std::string& archs,
                            const PrewarmSettings& settings, const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Target> targets = find_targets(archs);
  if (archs.empty() && !targets.front().present)
    throw Error(ErrorCode::invalid_argument, "--arch is missing and there is no GPU here; expected e.g. --arch sm_90a");
  const TemplateSet templates = open_templates(options);
  const std::shared_ptr<Compiler> compiler = open_compiler(DeviceInfo::Kind::cuda, options);
  for (const Target& target : targets) check_arch(*compiler, target.device.arch);
  const std::shared_ptr<Cache> cache = open_cache(options);
  const std::vector<Job> jobs = list_jobs(problems, targets, settings, templates, options);

  PrewarmResult result;
  result.problems = static_cast<int>(problems.size());
  result.total = static_cast<int>(jobs.size());
  {
    Progress progress("compiling");
    std::atomic<std::size_t> next{0};
    std::mutex mutex;  // guards result
    const auto work = [&] {
      for (std::size_t i = next++; i < jobs.size() && !interrupted(); i = next++) {
        const Job& job = jobs[i];
        try {
          const Built built =
              build_binary(*job.op->parse(job.asked.problem), job.config, job.arch, *compiler, *cache, templates);
          const std::lock_guard lock(mutex);
          ++result.done;
          if (!built.from_cache) ++result.made;
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          result.failures.push_back(failure_of(job.text(), job.asked, error));
        } catch (const std::exception& error) {  // must not leave the thread
          const std::lock_guard lock(mutex);
          result.failures.push_back(failure_of(job.text(), job.asked, Error(ErrorCode::compile_failed, error.what())));
        }
        const std::lock_guard lock(mutex);
        progress.update(result.done + static_cast<int>(result.failures.size()), result.total, job.text());
      }
    };
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const std::size_t count = std::min<std::size_t>(settings.jobs > 0 ? settings.jobs : cores, jobs.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }
  result.interrupted = interrupted();
  result.wall_s = seconds_since(start);
  require_stored(*cache, result);
  return result;
}

PrewarmResult tune_ahead(const std::vector<SpecProblem>& problems, const PrewarmSettings& settings,
                         const EngineOptions& options, const std::function<Json(const TuneRequest&)>& tune_one) {
  const auto start = std::chrono::steady_clock::now();
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
  result.wall_s = seconds_since(start);
  return result;
}

}  // namespace tunesmith::cli
