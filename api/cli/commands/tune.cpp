// tunesmith tune: measures the search space of problems and stores the winners.

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/tuning/gpus.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/prewarm_report.h"
#include "api/cli/tuning/tune_report.h"
#include "api/engine/tune_apart.h"

namespace tunesmith::cli {
namespace {

struct TuneFlags {
  std::shared_ptr<const ProblemFlags> problem;
  EngineFlags engine;
  std::string device = "auto", gpus, budget = "10s", effort = "full";
  std::int64_t jobs = 0;
  bool force = false, json = false, here = false, brief = false, turn = false;
};

/// In the child of an engine: steps and every outcome are one line each (api/engine/tune_apart.h).
int tune_for_engine(TuneRequest request, const EngineOptions& options) {
  request.observer = [](int done, int total, const std::string& what) {
    std::printf("%s\n", progress_text(done, total, what).c_str());
    std::fflush(stdout);
  };
  int code = exit_done;
  std::string line;
  try {
    const Json result = tune_here(request, options);
    line = answer_text(Tuned{{parse_fields(result["config"].get<std::string>(), "tuned config")},
                             result["wall_s"],
                             result["compiled"].get<int>() > 0 ? 1e3 * result["compile_s"].get<double>() : 0,
                             result["disturbed"].get<std::string>()});
  } catch (const Error& error) {
    line = answer_text(error);
    code = exit_code(error.code());
  }
  std::printf("%s\n", line.c_str());
  return code;
}

/// In the child: every outcome is a line of JSON. With --turn, the child uses the GPU only after the parent has given the
/// turn.
int tune_as_child(TuneRequest request, bool has_turn, const EngineOptions& options) {
  if (has_turn) {
    request.before_device = [] {
      if (!wait_for_turn(STDIN_FILENO, interrupted())) throw Error(ErrorCode::cancelled, "nobody waits for the result");
    };
    request.compiled = [] {
      std::puts(compiled_line);
      std::fflush(stdout);
    };
  }
  int code = exit_done;
  std::string line;
  try {
    line = dump(tune_here(request, options));
  } catch (const Error& error) {
    line = dump(to_json(error));
    code = exit_code(error.code());
  }
  std::printf("%s\n", line.c_str());
  return code;
}

/// Several problems: on several GPUs at the same time, as prewarm does.
int tune_all(const std::vector<Problem>& problems, const TuneFlags& flags, const TuneRequest& like,
             const EngineOptions& options) {
  PrewarmSettings settings;
  settings.effort = like.effort;
  settings.budget_s = like.budget_s;
  settings.jobs = like.jobs;
  settings.force = like.force;
  settings.devices = flags.gpus.empty() ? std::vector{like.device} : parse_gpus(flags.gpus, count_gpus());
  std::vector<SpecProblem> asked;
  for (const Problem& problem : problems) asked.push_back({problem, ""});

  std::vector<Json> results(problems.size());  // each is written by one thread
  const PrewarmResult outcome = tune_ahead(asked, settings, options, [&](const TuneRequest& request) {
    const auto at = std::ranges::find(problems, request.problem) - problems.begin();
    return results[static_cast<std::size_t>(at)] = tune_in_child(request);
  });
  if (flags.json) {
    Json json = to_json(outcome, options);
    std::erase_if(results, [](const Json& result) { return result.is_null(); });
    json["results"] = results;
    std::puts(dump_pretty(json).c_str());
  } else {
    print(outcome, options, "tuned");
    std::printf("\n%s", results_table(problems, results).c_str());
  }
  report_failures(outcome.failures);
  if (outcome.interrupted) throw Error(ErrorCode::cancelled, "interrupted; the cache holds what was finished");
  return outcome.failures.empty() ? exit_done : exit_failed;
}

int run_tune(const TuneFlags& flags) {
  const EngineOptions options = flags.engine.options();
  TuneRequest request;
  request.device = flags.device;
  request.cache_file = options.cache_file;
  request.effort = parse_effort(flags.effort);
  request.budget_s = parse_duration(flags.budget, "--budget");
  request.jobs = static_cast<int>(flags.jobs);
  request.force = flags.force;
  if (flags.here) {
    request.problem = flags.problem->op().normalize(flags.problem->problem());
    catch_interrupts();
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read the results
    return flags.brief ? tune_for_engine(request, options) : tune_as_child(request, flags.turn, options);
  }
  if (!flags.gpus.empty() && flags.device != "auto")
    throw Error(ErrorCode::invalid_argument, "--gpus is given with --device; expected one of them");
  const std::vector<Problem> problems = flags.problem->problems();
  catch_interrupts();
  if (problems.size() > 1) return tune_all(problems, flags, request, options);
  request.problem = problems.front();
  if (!flags.gpus.empty()) request.device = parse_gpus(flags.gpus, count_gpus()).front();
  const Json result = tune_in_child(request);
  if (flags.json)
    std::puts(dump_pretty(result).c_str());
  else
    print(request.problem, result);
  return exit_done;
}

}  // namespace

void add_tune(CLI::App& app, Parse& parse) {
  CLI::App* tune_command =
      app.add_subcommand("tune", "measure configurations of a problem, store the fastest (needs a GPU)");
  tune_command->footer(
      "`tunesmith tune OP --help` lists the flags of an operation. Numbers and choices may be lists; lists multiply.\n"
      "\n"
      "Examples:\n"
      "  tunesmith tune softmax --rows 4096 --cols 32000 --dtype bf16\n"
      "  tunesmith tune softmax --rows 4096 --cols 1024 --effort quick --budget 2s --force\n"
      "  tunesmith tune softmax --rows 4096 --cols 1000,2000,4096 --dtype bf16,f32 --gpus all");
  add_operations(*tune_command, parse, [](CLI::App& command, const std::shared_ptr<const ProblemFlags>& problem) -> Action {
    auto flags = std::make_shared<TuneFlags>();
    flags->problem = problem;
    command.add_option("--budget", flags->budget, "wall time for each problem, e.g. 500ms, 10s, 2m (default: 10s)")
        ->type_name("TIME");
    command.add_option("--effort", flags->effort, "how many candidates to try (default: full)")->type_name("quick|full");
    command.add_flag("--force", flags->force, "measure again even if there is a record");
    add_number(command, "--jobs", flags->jobs, 0, 1024,
               "compile threads, shared by the GPUs (default: one per core; for several problems, less one for each GPU)");
    command.add_option("--device", flags->device, "which GPU (default: the first)")->type_name("cuda|cuda:N");
    command.add_option("--gpus", flags->gpus, "GPUs that tune several problems at the same time")->type_name("all|N,...");
    flags->engine.add_cache(command);
    command.add_flag("--json", flags->json, "print one JSON object with every trial, nothing else");
    command.add_flag("--here", flags->here)->group("");    // in this process: how the tool calls itself
    command.add_flag("--brief", flags->brief)->group("");  // how an engine calls the tool
    command.add_flag("--turn", flags->turn)->group("");    // stdin receives a byte when the GPU may be used
    command.footer("Numbers and choices may be lists, such as 1000,2000. Lists multiply: every combination is tuned.");
    return [flags] { return run_tune(*flags); };
  });
}

}  // namespace tunesmith::cli
