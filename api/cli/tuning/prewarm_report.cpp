#include "api/cli/tuning/prewarm_report.h"

#include <algorithm>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/report/table.h"

namespace tunesmith::cli {

Json to_json(const PrewarmResult& result, const EngineOptions& options) {
  Json failures = Json::array();
  for (const PrewarmFailure& failure : result.failures)
    failures.push_back({{"what", failure.what}, {"code", name(failure.error.code())}, {"error", failure.error.what()}});
  return {{"problems", result.problems},
          {"total", result.total},
          {"done", result.done},
          {"new", result.made},
          {"already_there", result.done - result.made},
          {"failed", failures},
          {"wall_s", result.wall_s},
          {"interrupted", result.interrupted},
          {"cache", options.cache_file.string()}};
}

void print(const PrewarmResult& result, const EngineOptions& options, const std::string& what) {
  std::fputs(listing({{"problems", std::to_string(result.problems)},
                      {what, std::to_string(result.done) + " of " + std::to_string(result.total) + " (" +
                                 std::to_string(result.made) + " new, " + std::to_string(result.done - result.made) +
                                 " already there)"},
                      {"failed", result.failures.empty() ? "" : std::to_string(result.failures.size())},
                      {"time", fixed(result.wall_s, 2) + " s"},
                      {"cache", options.cache_file.string()}})
                 .c_str(),
             stdout);
}

void report_failures(const std::vector<PrewarmFailure>& failures) {
  std::vector<std::pair<std::string, std::vector<const PrewarmFailure*>>> mistakes;
  for (const PrewarmFailure& failure : failures) {
    // The compiler's log is the same for every binary; messages also name architecture and file.
    const std::string log = failure.error.log(), gist = log.empty() ? failure.error.what() : log;
    auto known = std::ranges::find(mistakes, gist, &decltype(mistakes)::value_type::first);
    if (known == mistakes.end()) known = mistakes.insert(known, {gist, {}});
    known->second.push_back(&failure);
  }
  for (const auto& [gist, made_fail] : mistakes) {
    for (const PrewarmFailure* failure : made_fail) std::fprintf(stderr, "tunesmith: failed: %s\n", failure->what.c_str());
    report(made_fail.front()->error);
  }
}

}  // namespace tunesmith::cli
