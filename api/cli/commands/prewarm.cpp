// tunesmith prewarm: fills a cache before the programs that use it start.

#include "api/cli/tuning/prewarm.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/remote_flag.h"
#include "api/cli/commands/commands.h"
#include "api/cli/tuning/gpus.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/jobs.h"
#include "api/cli/tuning/prewarm_report.h"
#include "api/cli/tuning/prewarm_spec.h"
#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {
namespace {

struct PrewarmFlags {
  EngineFlags engine;
  std::string spec, archs, gpus, effort = "full", budget = "10s";
  bool compile_only = false, all_configs = false, json = false;
  RemoteFlag remote;
  std::string queue = "default";
  bool enqueue = false, wait = false;
  std::int64_t jobs = 0;
};

/// Leaves the tuning to the workers of a queue.
int enqueue(const PrewarmFlags& flags) {
  const std::vector<SpecProblem> problems = read_spec(flags.spec);
  fleet::Queue queue(flags.remote.url(), flags.queue);
  const JobSettings settings{parse_effort(flags.effort), parse_duration(flags.budget, "--budget")};
  std::vector<std::string> ids;
  for (const SpecProblem& asked : problems) ids.push_back(queue.add(job_payload(asked.problem, settings)));
  catch_interrupts();
  const QueueOutcome outcome = flags.wait ? wait_for_jobs(queue, ids) : QueueOutcome{};
  if (flags.json)
    std::puts(dump_pretty({{"queue", flags.queue},
                           {"jobs", ids},
                           {"waited", flags.wait},
                           {"done", outcome.done},
                           {"failed", outcome.errors},
                           {"interrupted", outcome.interrupted}})
                  .c_str());
  else
    std::printf("%zu jobs in queue %s%s\n", ids.size(), flags.queue.c_str(),
                flags.wait ? (", " + std::to_string(outcome.done) + " done").c_str() : "");
  for (const std::string& error : outcome.errors) std::fprintf(stderr, "tunesmith: failed: %s\n", error.c_str());
  if (outcome.interrupted) throw Error(ErrorCode::cancelled, "interrupted; the jobs stay in the queue");
  return outcome.errors.empty() ? exit_done : exit_failed;
}

int prewarm(const PrewarmFlags& flags) {
  if (flags.wait && !flags.enqueue) throw Error(ErrorCode::invalid_argument, "--wait needs --enqueue");
  if (flags.enqueue && flags.compile_only)
    throw Error(ErrorCode::invalid_argument, "--compile-only does not go with --enqueue: `tunesmith work` has that flag");
  if (flags.enqueue) return enqueue(flags);
  EngineOptions options = flags.engine.options();
  PrewarmSettings settings;
  settings.effort = parse_effort(flags.effort);
  settings.budget_s = parse_duration(flags.budget, "--budget");
  settings.jobs = static_cast<int>(flags.jobs);
  settings.all_configs = flags.all_configs;
  if (!flags.compile_only && (flags.all_configs || !flags.archs.empty()))
    throw Error(ErrorCode::invalid_argument, flags.all_configs ? "--all-configs" : "--arch",
                " needs --compile-only: tuning uses the GPU of this machine");
  if (flags.compile_only && !flags.gpus.empty())
    throw Error(ErrorCode::invalid_argument, "--gpus is given with --compile-only, which needs no GPU; expected --arch");
  const std::vector<SpecProblem> problems = read_spec(flags.spec);
  if (options.cache_file.empty())
    throw Error(ErrorCode::invalid_argument, "no cache file to fill; expected --cache FILE or TUNESMITH_CACHE");
  if (!flags.gpus.empty()) settings.devices = parse_gpus(flags.gpus, count_gpus());
  catch_interrupts();

  const PrewarmResult result =
      flags.compile_only ? compile_ahead(problems, flags.archs, settings, options) : tune_ahead(problems, settings, options);
  if (flags.json)
    std::puts(dump_pretty(to_json(result, options)).c_str());
  else
    print(result, options, flags.compile_only ? "binaries" : "tuned");
  report_failures(result.failures);
  if (result.interrupted) throw Error(ErrorCode::cancelled, "interrupted; the cache holds what was finished");
  return result.failures.empty() ? exit_done : exit_failed;
}

}  // namespace

void add_prewarm(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand("prewarm", "fill a cache for a list of problems: tune, or compile without a GPU");
  auto flags = std::make_shared<PrewarmFlags>();
  command->add_option("--spec", flags->spec, "problems as JSON; lists multiply")->type_name("FILE.json")->required();
  command->add_flag("--compile-only", flags->compile_only, "compile the configuration that will be selected; needs no GPU");
  command->add_option("--arch", flags->archs, "with --compile-only: architectures, e.g. sm_90a,sm_100a (default: the GPU's)")
      ->type_name("ARCH,...");
  command->add_flag("--all-configs", flags->all_configs, "with --compile-only: every configuration that --effort would try");
  command->add_option("--gpus", flags->gpus, "GPUs that tune at the same time (default: the first)")->type_name("all|N,...");
  command->add_option("--effort", flags->effort, "how many candidates to try (default: full)")->type_name("quick|full");
  command->add_option("--budget", flags->budget, "tuning time for each problem (default: 10s)")->type_name("TIME");
  add_number(*command, "--jobs", flags->jobs, 0, 1024,
             "compile threads, shared by the GPUs (default: one per core; for tuning, less one for each GPU)");
  command->add_flag("--enqueue", flags->enqueue, "leave the tuning to `tunesmith work` on other machines; needs no GPU");
  command->add_option("--queue", flags->queue, "with --enqueue: name of the queue (default: default)")->type_name("NAME");
  command->add_flag("--wait", flags->wait, "with --enqueue: wait until the workers are done");
  flags->remote.add_to(*command);
  flags->engine.add_specialize(*command, Specialize::automatic);
  flags->engine.add_cache(*command);
  command->add_flag("--json", flags->json, "print one JSON object, nothing else");
  command->footer(
      "A spec:\n"
      "  {\"problems\": [{\"op\": \"softmax\", \"rows\": 4096, \"cols\": [1024, 32000], \"dtype\": [\"bf16\", \"f32\"]},\n"
      "                {\"op\": \"attention\", \"heads\": 32, \"seq_q\": 8192, \"head_dim\": 128,\n"
      "                 \"mask_mod\": [\"documents.cu\", \"masks/prefix.cu\"], \"aux\": \"depth:i32=64\"}]}\n"
      "Keys are the fields of `tunesmith ops --json`. score_mod and mask_mod name files, relative to the spec.\n"
      "\n"
      "Examples:\n"
      "  tunesmith prewarm --spec problems.json --cache service.db\n"
      "  tunesmith prewarm --spec problems.json --cache service.db --gpus all\n"
      "  tunesmith prewarm --spec problems.json --compile-only --arch sm_90a,sm_100a --cache service.db");
  command->callback([&parse, flags] { parse.action = [flags] { return prewarm(*flags); }; });
}

}  // namespace tunesmith::cli
