#include "api/cli/tuning/prewarm.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/target.h"
#include "api/cli/report/progress.h"
#include "api/cli/tuning/interrupt.h"
#include "api/engine/parts.h"
#include "templates/render.h"
#include "tuner/build.h"

namespace tunesmith::cli {
namespace {

/// One source to compile for one architecture.
struct Job {
  SpecProblem asked;
  Config config;
  KernelSource source;
  Arch arch;

  std::string text() const { return asked.problem.short_text() + " (" + config.text() + ") for " + name(arch); }
};

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
      for (Config& config : configs) {
        KernelSource source(*op.parse(problem), config, templates);
        if (seen.emplace(target.device.arch, source.key()).second)
          jobs.push_back({asked, std::move(config), std::move(source), target.device.arch});
      }
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

PrewarmFailure failure_of(const std::string& what, const SpecProblem& asked, const Error& error) {
  return {what + (asked.sources.empty() ? "" : ", with " + asked.sources), error};
}

PrewarmResult compile_ahead(const std::vector<SpecProblem>& problems, const std::string& archs,
                            const PrewarmSettings& settings, const EngineOptions& options) {
  const Stopwatch watch;
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
          const Built built = build_binary(job.source, job.arch, *compiler, *cache);
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
  result.wall_s = watch.seconds();
  require_stored(*cache, result);
  return result;
}

}  // namespace tunesmith::cli
