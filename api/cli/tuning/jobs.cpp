#include "api/cli/tuning/jobs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {
namespace {

constexpr std::chrono::milliseconds poll_interval(300);

}  // namespace

std::string job_payload(const Problem& problem, const JobSettings& settings) {
  Json entry = to_json(problem.fields);
  entry["op"] = problem.op;
  return dump({{"problem", entry}, {"effort", name(settings.effort)}, {"budget_s", settings.budget_s}});
}

TuningJob parse_job(const std::string& payload) {
  const Json job = Json::parse(payload, nullptr, false);
  if (!job.is_object() || !job.contains("problem") || !job.contains("effort") || !job.contains("budget_s") ||
      !job["budget_s"].is_number() || !job["effort"].is_string())
    throw Error(ErrorCode::invalid_argument, "the job is not one of this version of Tunesmith");
  TuningJob parsed;
  parsed.settings.effort = parse_effort(job["effort"].get<std::string>());
  parsed.settings.budget_s = std::clamp(job["budget_s"].get<double>(), 0.1, 3600.0);
  // Like a line of a problem log, which has user sources in place instead of names of files.
  Json line = job["problem"];
  line["count"] = 1;
  const std::vector<SpecProblem> problems = parse_spec(dump(line) + "\n", "job");
  if (problems.size() != 1)
    throw Error(ErrorCode::invalid_argument, "the job has ", problems.size(), " problems; expected 1");
  parsed.asked = problems.front();
  return parsed;
}

QueueOutcome wait_for_jobs(fleet::Queue& queue, const std::vector<std::string>& ids) {
  QueueOutcome outcome;
  std::set<std::string> open(ids.begin(), ids.end());
  const std::size_t total = open.size();
  while (!open.empty() && !interrupted()) {
    const std::size_t before = open.size();
    for (auto id = open.begin(); id != open.end();) {
      const fleet::JobState state = queue.state(*id);
      const bool is_dead = state.kind == fleet::JobState::Kind::dead;
      if (is_dead) outcome.errors.push_back(state.text);
      if (state.kind == fleet::JobState::Kind::unknown) outcome.errors.push_back("job " + *id + " has disappeared");
      const bool is_open = state.kind == fleet::JobState::Kind::waiting || state.kind == fleet::JobState::Kind::running;
      if (state.kind == fleet::JobState::Kind::done) ++outcome.done;
      id = is_open ? std::next(id) : open.erase(id);
    }
    if (open.size() != before) std::fprintf(stderr, "tunesmith: %zu of %zu jobs ended\n", total - open.size(), total);
    if (!open.empty()) std::this_thread::sleep_for(poll_interval);
  }
  outcome.interrupted = interrupted();
  return outcome;
}

}  // namespace tunesmith::cli
