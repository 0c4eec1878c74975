// tunesmith work: tunes the problems of a queue.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/remote_flag.h"
#include "api/cli/commands/commands.h"
#include "api/cli/tuning/gpus.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/jobs.h"
#include "api/cli/tuning/prewarm.h"
#include "api/cli/tuning/tune_child.h"
#include "fleet/protocol/transfer.h"

namespace tunesmith::cli {
namespace {

struct WorkFlags {
  EngineFlags engine;
  RemoteFlag remote;
  std::string queue = "default", gpus = "0", archs;
  bool until_idle = false, compile_only = false;
  std::int64_t patience_s = 120, jobs = 0;
};

std::string worker_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + "-" + std::to_string(getpid());
}

/// The request for a child process, which finds out whether the remote cache has a record: its environment names it.
TuneRequest request_of(const TuningJob& job, const std::string& device, int jobs, const EngineOptions& options) {
  TuneRequest request;
  request.problem = job.asked.problem;
  request.device = device;
  request.cache_file = options.cache_file;
  request.effort = job.settings.effort;
  request.budget_s = job.settings.budget_s;
  request.jobs = jobs;
  return request;
}

void compile(const TuningJob& job, const WorkFlags& flags, const EngineOptions& options) {
  PrewarmSettings settings;
  settings.jobs = static_cast<int>(flags.jobs);
  const PrewarmResult result = compile_ahead({job.asked}, flags.archs, settings, options);
  if (!result.failures.empty()) throw Error(result.failures.front().error);
}

/// Calls `work` for each device, on threads of their own, and adds up the outcomes. Throws the first error.
QueueOutcome work_on_all(const std::vector<std::string>& devices,
                         const std::function<QueueOutcome(const std::string&)>& work) {
  QueueOutcome sum;
  std::exception_ptr failure;
  std::mutex mutex;  // guards both
  std::vector<std::thread> threads;
  for (const std::string& device : devices)
    threads.emplace_back([&, device] {
      try {
        const QueueOutcome outcome = work(device);
        const std::lock_guard lock(mutex);
        sum.done += outcome.done;
        sum.errors.insert(sum.errors.end(), outcome.errors.begin(), outcome.errors.end());
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return sum;
}

int work(const WorkFlags& flags) {
  EngineOptions options = flags.engine.options();
  const fleet::RemoteUrl url = flags.remote.url();
  options.remote = flags.remote.text();
  if (options.cache_file.empty())
    throw Error(ErrorCode::invalid_argument, "no cache file to fill; expected --cache FILE or TUNESMITH_CACHE");
  if (flags.compile_only && flags.archs.empty())
    throw Error(ErrorCode::invalid_argument, "--compile-only needs --arch, e.g. --arch sm_90a");
  // Without a GPU, every job would fail.
  const std::vector<std::string> devices =
      flags.compile_only ? std::vector<std::string>{"host"} : parse_gpus(flags.gpus, count_gpus());
  setenv("TUNESMITH_REMOTE", options.remote.c_str(), 1);  // for the children
  catch_interrupts();
  EngineOptions local = options;
  local.remote.clear();
  const std::shared_ptr<Cache> cache = open_cache(local);
  // One thread of each GPU measures while the next job compiles.
  const bool ahead = !flags.compile_only;
  const int jobs = compile_threads_per_gpu(static_cast<int>(flags.jobs), devices.size(), ahead ? 1 : 0);
  const QueueOutcome outcome = work_on_all(devices, [&](const std::string& device) {
    fleet::Queue queue(url, flags.queue);
    WorkSettings settings;
    settings.worker = worker_name() + "-" + device;
    settings.until_idle = flags.until_idle;
    settings.patience = std::chrono::seconds(flags.patience_s);
    settings.ahead = ahead;
    Work work;
    work.start = [&](const TuningJob& job) {
      if (flags.compile_only)
        return std::make_unique<PendingTuning>(TuneRequest{}, [job, &flags, &local](const TuneRequest&) {
          compile(job, flags, local);
          return Json();
        });
      return std::make_unique<PendingTuning>(request_of(job, device, jobs, options), tune_in_child);
    };
    work.publish = [&] { fleet::push(url, *cache, {}); };  // a job is done when its results are on the server
    return work_on(queue, settings, work);
  });
  std::printf("%d jobs done, %zu failed\n", outcome.done, outcome.errors.size());
  return outcome.errors.empty() ? exit_done : exit_failed;
}

}  // namespace

void add_work(CLI::App& app, Parse& parse) {
  CLI::App* const command = app.add_subcommand("work", "tune the problems that `prewarm --enqueue` adds to a queue");
  const auto flags = std::make_shared<WorkFlags>();
  command->add_option("--queue", flags->queue, "name of the queue; use one for each type of GPU (default: default)")
      ->type_name("NAME");
  command->add_flag("--until-idle", flags->until_idle, "end when no job waits or runs");
  command->add_option("--gpus", flags->gpus, "GPUs to tune on, one job on each at a time (default: 0)")
      ->type_name("all|N,...");
  command->add_flag("--compile-only", flags->compile_only, "compile the configuration that will be selected; needs no GPU");
  command->add_option("--arch", flags->archs, "with --compile-only: architectures, e.g. sm_90a,sm_100a")
      ->type_name("ARCH,...");
  add_number(*command, "--patience", flags->patience_s, 1, 86'400,
             "seconds after which a job of a lost worker is taken over (default: 120)");
  add_number(*command, "--jobs", flags->jobs, 0, 1024, "compile threads, shared by the GPUs (default: one per core)");
  flags->remote.add_to(*command);
  flags->engine.add_specialize(*command, Specialize::automatic);
  flags->engine.add_cache(*command);
  command->footer(
      "Examples:\n"
      "  tunesmith work --remote redis://cache.example --cache worker.db\n"
      "  tunesmith work --queue h200 --gpus all --until-idle");
  command->callback([&parse, flags] { parse.action = [flags] { return work(*flags); }; });
}

}  // namespace tunesmith::cli
