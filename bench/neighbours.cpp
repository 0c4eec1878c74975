// tunesmith_neighbours FILE.db...: replays the trials of cache files, to compare tuning by neighbours (tuner/neighbours.h)
// with the search that stored them. Leaves each key out in turn. `--apart OCTAVES` also leaves out the records that are
// nearer to it than that, as if the cache had fewer of them. Runs anywhere.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tuner/replay.h"

namespace {

void print(const std::string& name, const std::vector<tunesmith::Replay>& replays) {
  const tunesmith::ReplaySummary of = tunesmith::summarize(replays);
  std::printf("| %s | %d | %d | %.1f%% | %.1f%% | %.2f%% | %.2f%% | %.2f%% | %d |\n", name.c_str(), of.keys, of.lists,
              100 * of.share_of_timings, 100 * of.share_of_all, 100 * of.median_regret, 100 * of.p95_regret,
              100 * of.worst_regret, of.other_winners);
}

}  // namespace

int main(int argc, char** argv) {
  bool each_key = false;
  double apart = 0;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--keys")
      each_key = true;
    else if (std::string(argv[i]) == "--apart" && i + 1 < argc)
      apart = std::strtod(argv[++i], nullptr);
    else
      files.emplace_back(argv[i]);
  }
  if (files.empty()) {
    std::fputs("usage: tunesmith_neighbours [--keys] [--apart OCTAVES] FILE.db...\n", stderr);
    return 2;
  }
  // Each file by itself: files may hold the same keys.
  std::vector<tunesmith::Replay> all;
  std::map<std::string, std::vector<tunesmith::Replay>> by_op;
  const auto warn = [](const std::string& text) { std::fprintf(stderr, "tunesmith_neighbours: %s\n", text.c_str()); };
  for (const std::filesystem::path& file : files) {
    tunesmith::Cache cache({.file = {}, .system_files = {file}, .warn = warn, .remote = {}});
    for (const tunesmith::TuningRecord& record : cache.list_records()) try {
        auto result = tunesmith::replay(record, cache, apart);
        if (!result) continue;
        if (each_key)
          std::printf("%s %s n_cols=%lld rows=%lld: %d of %d timed, regret %.2f%%%s%s\n", result->key.op.c_str(),
                      result->key.problem_class.c_str(), static_cast<long long>(result->key.n_cols),
                      static_cast<long long>(result->key.rows_bucket), result->chosen_timed, result->timed,
                      100 * result->regret, result->why_not.empty() ? "" : "; ", result->why_not.c_str());
        if (each_key && result->other_winner)
          std::printf("  chooses %s; the search %s\n", result->chosen.c_str(), result->winner.c_str());
        by_op[result->key.op].push_back(*result);
        all.push_back(std::move(*result));
      } catch (const tunesmith::Error& error) {
        warn(file.string() + ": " + error.what());
      }
  }
  std::puts(
      "| operation | keys | with a short list | timings of these | timings of all keys | regret, median | 95% | worst | "
      "other winner |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  for (const auto& [op, replays] : by_op) print(op, replays);
  print("all", all);
  return 0;
}
