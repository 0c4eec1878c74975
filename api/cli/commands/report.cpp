// tunesmith report: the tuning results of a problem, as text or as an HTML page. Needs no GPU.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/cache/views.h"
#include "api/cli/page/gather.h"

namespace tunesmith::cli {
namespace {

struct ReportFlags {
  std::shared_ptr<const ProblemFlags> problem;
  EngineFlags engine;
  std::string html;
};

int report_tuning(const ReportFlags& flags) {
  const EngineOptions options = flags.engine.options();
  const std::shared_ptr<Cache> cache = open_cache(options);
  const Problem problem = flags.problem->op().normalize(flags.problem->problem());
  const auto [record, instead_of] = find_tuning(problem, *cache, open_templates(options));
  if (flags.html.empty()) {
    CurrentVersion version(options);
    if (!instead_of.empty())
      std::printf("The cache has no record of %s %s; the nearest record:\n\n", problem.op.c_str(), instead_of.c_str());
    std::printf("%s\n%s", record_listing(record, version).c_str(), trials_table(cache->find_trials(record.key)).c_str());
    return exit_done;
  }
  TuningPage page = gather(record, *cache, options);
  page.instead_of = instead_of;
  write_page(page, flags.html);
  std::printf("wrote %s\n", flags.html.c_str());
  return exit_done;
}

}  // namespace

void add_report(CLI::App& app, Parse& parse) {
  CLI::App* report = app.add_subcommand("report", "show what tuning found for one problem, as text or HTML (no GPU)");
  report->footer(
      "`tunesmith report OP --help` lists the flags of an operation.\n"
      "\n"
      "Examples:\n"
      "  tunesmith report softmax --rows 4096 --cols 32000 --dtype bf16 --html softmax.html");
  add_operations(*report, parse, [](CLI::App& command, const std::shared_ptr<const ProblemFlags>& problem) -> Action {
    auto flags = std::make_shared<ReportFlags>();
    flags->problem = problem;
    command.add_option("--html", flags->html, "write a self-contained page with charts and the generated source instead")
        ->type_name("FILE");
    flags->engine.add_cache(command);
    return [flags] { return report_tuning(*flags); };
  });
}

}  // namespace tunesmith::cli
