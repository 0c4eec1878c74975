#include "api/cli/tuning/tune_report.h"

#include <algorithm>
#include <cstdio>

#include "api/cli/arguments/problem_flags.h"
#include "api/cli/report/table.h"

namespace tunesmith::cli {
namespace {

constexpr std::size_t shown_trials = 10;

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

}  // namespace

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
      {"disturbed", result["disturbed"]},
      {"cache", result["cache"]},
  });
  if (!result["trials"].empty()) text += "\n" + trials_table(result);
  std::fputs(text.c_str(), stdout);
}

std::string results_table(const std::vector<Problem>& problems, const std::vector<Json>& results) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (const Json& result = results[i]; !result.is_null())
      rows.push_back({brief(problems[i]), fixed(result["median_us"], 2), times(result["speedup_over_default"]),
                      std::to_string(result["timed"].get<int>()), result["config"]});
  return table({{"problem"}, {"median us", true}, {"over default", true}, {"timed", true}, {"winner"}}, rows);
}

}  // namespace tunesmith::cli
