// tunesmith tune: measures the search space of one problem and stores the winner.

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/report/table.h"
#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/tune_child.h"
#include "api/engine/tune_apart.h"

namespace tunesmith::cli {
namespace {

constexpr std::size_t shown_trials = 10;

struct TuneFlags {
  std::shared_ptr<const ProblemFlags> problem;
  EngineFlags engine;
  std::string device = "auto", budget = "10s", effort = "full";
  std::int64_t jobs = 0;
  bool force = false, neighbours_first = false, json = false, here = false, brief = false;
};

std::string trials_table(const Json& result) {
  std::vector<Json> trials = result["trials"];
  std::ranges::stable_sort(trials, {}, [](const Json& trial) {
    const bool timed = trial["status"] == "timed";
    return std::pair(!timed, timed ? trial["median_us"].get<double>() : 0);
  });
  std::vector<std::vector<std::string>> rows;
  for (const Json& trial : trials) {
    if (rows.size() == shown_trials) break;
    const std::string config = trial["config"];
    const bool timed = trial["status"] == "timed";
    const std::string mark = config == result["config"].get<std::string>()           ? "winner"
                             : config == result["default_config"].get<std::string>() ? "default"
                             : timed                                                 ? ""
                                                                                     : trial["status"].get<std::string>();
    rows.push_back({timed ? fixed(trial["median_us"], 2) : "-", timed ? fixed(trial["mad_us"], 2) : "-", mark, config});
  }
  std::string text = table({{"median us", true}, {"MAD us", true}, {""}, {"config"}}, rows);
  if (trials.size() > rows.size()) text += "... " + std::to_string(trials.size() - rows.size()) + " more in --json\n";
  return text;
}

std::string time_text(const Json& result) {
  const Json& rate = result["gb_per_s"];
  return microseconds(result["median_us"]) + " (MAD " + microseconds(result["mad_us"]) + ")" +
         (rate.is_null() ? "" : ", " + fixed(rate, 0) + " GB/s");
}

std::string neighbours_text(const Json& result) {
  if (const int count = result["neighbours"]; count > 0)
    return "the trials of " + std::to_string(count) + " near records chose the candidates";
  const std::string why = result["why_all_tried"];
  return why.empty() ? "" : "all candidates were tried: " + why;
}

void print(const Problem& problem, const Json& result) {
  const bool measured = result["measured"];
  std::string text = listing({
      {"operation", result["op"]},
      {"problem", brief(problem)},
      {"device", result["device"].get<std::string>() + ", " + result["arch"].get<std::string>()},
      {"winner", result["config"]},
      {"time", time_text(result)},
      {"default", microseconds(result["default_median_us"]) + ": the winner is " + times(result["speedup_over_default"])},
      {"tuning", measured ? std::to_string(result["timed"].get<int>()) + " of " +
                                std::to_string(result["candidates"].get<int>()) + " candidates timed in " +
                                fixed(result["wall_s"], 2) + " s (compiling " + fixed(result["compile_s"], 2) + " s)"
                          : "a record exists; --force measures again"},
      {"neighbours", neighbours_text(result)},
      {"cache", result["cache"]},
  });
  if (!result["trials"].empty()) text += "\n" + trials_table(result);
  std::fputs(text.c_str(), stdout);
}

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
                             result["compiled"].get<int>() > 0 ? 1e3 * result["compile_s"].get<double>() : 0});
  } catch (const Error& error) {
    line = answer_text(error);
    code = exit_code(error.code());
  }
  std::printf("%s\n", line.c_str());
  return code;
}

/// In the child: every outcome is a line of JSON.
int tune_as_child(const TuneRequest& request, const EngineOptions& options) {
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

int run_tune(const TuneFlags& flags) {
  const EngineOptions options = flags.engine.options();
  TuneRequest request;
  const Op& op = flags.problem->op();
  request.problem = op.normalize(flags.problem->problem());
  request.device = flags.device;
  request.cache_file = options.cache_file;
  request.effort = parse_effort(flags.effort);
  request.budget_s = parse_duration(flags.budget, "--budget");
  request.jobs = static_cast<int>(flags.jobs);
  request.force = flags.force;
  request.neighbours_first = flags.neighbours_first;
  catch_interrupts();
  if (flags.here) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it finds
    return flags.brief ? tune_for_engine(request, options) : tune_as_child(request, options);
  }
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
      app.add_subcommand("tune", "measure configurations of one problem, store the fastest (needs a GPU)");
  tune_command->footer(
      "`tunesmith tune OP --help` lists the flags of an operation.\n"
      "\n"
      "Examples:\n"
      "  tunesmith tune softmax --rows 4096 --cols 32000 --dtype bf16\n"
      "  tunesmith tune softmax --rows 4096 --cols 1024 --effort quick --budget 2s --force");
  add_operations(*tune_command, parse, [](CLI::App& command, const std::shared_ptr<const ProblemFlags>& problem) -> Action {
    auto flags = std::make_shared<TuneFlags>();
    flags->problem = problem;
    command.add_option("--budget", flags->budget, "wall time, e.g. 500ms, 10s, 2m (default: 10s)")->type_name("TIME");
    command.add_option("--effort", flags->effort, "how many candidates to try (default: full)")->type_name("quick|full");
    command.add_flag("--force", flags->force, "measure again even if there is a record");
    add_neighbours_first(command, flags->neighbours_first);
    add_number(command, "--jobs", flags->jobs, 0, 1024, "compile threads (default: one per core)");
    command.add_option("--device", flags->device, "which GPU (default: the first)")->type_name("cuda|cuda:N");
    flags->engine.add_cache(command);
    command.add_flag("--json", flags->json, "print one JSON object with every trial, nothing else");
    command.add_flag("--here", flags->here)->group("");    // in this process: how the tool calls itself
    command.add_flag("--brief", flags->brief)->group("");  // how an engine calls the tool
    return [flags] { return run_tune(*flags); };
  });
}

}  // namespace tunesmith::cli
