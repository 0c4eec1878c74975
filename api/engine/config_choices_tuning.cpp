// Tuning on first use: claims among processes and hosts, the tuner in this process or a child, pending keys.

#include <algorithm>
#include <set>
#include <utility>

#include "api/engine/config_choices.h"
#include "api/engine/log_text.h"
#include "api/engine/plan_request.h"
#include "api/engine/tune_apart.h"
#include "api/engine/tuning_report.h"
#include "tuner/recorded.h"
#include "tuner/tune.h"

namespace tunesmith {
namespace {

using Level = EngineOptions::Level;

/// Names the tuning key for Cache::claim().
std::string claim_text(const TuningKey& key) {
  std::string text = "tuning";
  for (const std::string& part : {key.op, key.problem_class, std::to_string(key.n_cols), std::to_string(key.rows_bucket),
                                  key.device_class, key.template_digest, key.policy})
    text.append("\n").append(part);
  return text;
}

Tuned tune_here(Engine::Parts& parts, const ParsedProblem& problem, TuningReport& report) {
  TuneOptions options;
  options.effort = parts.options.effort;
  options.budget_s = parts.options.tune_budget_s;
  options.progress = [&](int done, int total, const std::string& what) { report.step(done, total, what); };
  const TuneResult result = tune(problem, parts.bench(), options);
  const std::string disturbance = disturbance_text(result.record);
  say(parts.options, Level::info, "tuned ", problem.problem().short_text(), " in ", result.wall_s,
      " s: ", result.record.config, " takes ", result.record.median_us, " us, the default ", result.record.default_median_us,
      " us (", result.timed, " of ", result.candidates, " candidates timed)",
      disturbance.empty() ? "" : "; disturbed: ", disturbance);
  return {
      {parse_fields(result.record.config, "tuned config")}, result.wall_s, result.compiled > 0 ? 1e3 * result.compile_s : 0};
}

/// Returns the message of the exception being handled. Throws it again if it means that the default itself is wrong.
std::string failure_text() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::verification_failed) throw;
    return error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::optional<WorkClaim> ConfigChoices::claim_tuning(const PlanRequest& request, const TuningKey& tuning, bool force,
                                                     KeyChoice& known) {
  const EngineOptions& options = parts_.options;
  const DeviceInfo& device = parts_.device->info();
  const std::string key = claim_text(tuning);
  std::optional<WorkClaim> claim = parts_.cache->claim(key, std::chrono::milliseconds(0));
  const bool is_free = claim.has_value();
  const double start_s = parts_.now_s();
  // Do not wait again for an owner that took too long once.
  const bool may_wait = request.mode == Mode::tune && !force && !reported_claim_;
  const double limit_s = may_wait ? tuning_limit_s(options.tune_budget_s, parts_.tuner_start_s) : 0;
  if (!is_free && limit_s > 0)
    claim = parts_.cache->claim(key, std::chrono::milliseconds(static_cast<std::int64_t>(1000 * limit_s)));
  // Whoever had the claim, now or since the records were read, may have stored a result.
  known.records = known_records(*request.problem, tuning, *parts_.cache, {});
  // Without a result after a long time, tuning it here would hardly succeed.
  const bool may_try = is_free || parts_.now_s() - start_s + options.tune_budget_s <= limit_s ||
                       select(*request.problem, device, known.records).origin == Origin::exact;
  if (claim && may_try) return claim;
  if (may_wait && !reported_claim_.exchange(true))
    say(options, Level::warning, "another process has been tuning ", request.problem->problem().short_text(), " for ",
        parts_.now_s() - start_s, " s; the nearest record or the default configuration is used (said once)");
  return std::nullopt;
}

Cache::HostClaim ConfigChoices::claim_on_hosts(const PlanRequest& request, const TuningKey& tuning, KeyChoice& known) {
  constexpr double budgets = 3;  // a host that takes longer has failed
  Cache::HostClaim host = parts_.cache->claim_host(tuning, budgets * parts_.options.tune_budget_s);
  // The host that had the claim before may have published its result since the records were read.
  if (host.lease) known.records = known_records(*request.problem, tuning, *parts_.cache, {});
  return host;
}

std::optional<Tuned> ConfigChoices::tune_where(const PlanRequest& request, TuningReport& report) {
  if (parts_.tuner) return parts_.tuner(*request.problem);
  if (!parts_.options.isolate_tuning && !has_user_source(*request.problem))
    return tune_here(parts_, *request.problem, report);
  Tuned tuned = tune_apart(parts_, *request.problem, report);
  // Written by another program: check it like a caller's.
  tuned.config = request.problem->complete_config(parts_.device->info(), tuned.config);
  say(parts_.options, Level::info, "tuned ", request.problem->problem().short_text(), " in a child process in ",
      tuned.wall_s, " s: ", tuned.config.text(), tuned.disturbance.empty() ? "" : "; disturbed: ", tuned.disturbance);
  return tuned;
}

std::optional<Tuned> ConfigChoices::tune(const PlanRequest& request, const std::string& key) {
  std::string reason;
  TuningReport report(parts_.options, request.problem->problem());
  try {
    std::optional<Tuned> tuned = tune_where(request, report);
    report.finish();
    return tuned;
  } catch (...) {
    if (report.is_cancelled()) {
      remember_pending(request, key);
      report.rethrow();
    }
    report.fail();
    reason = failure_text();
  }
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    ++status_.failed_keys;
    is_first = !std::exchange(reported_failure_, true);
  }
  say(parts_.options, is_first ? Level::warning : Level::info, "tuning ", request.problem->problem().short_text(),
      " failed: ", reason, "; the nearest record or the default configuration is used",
      is_first ? " (later failures are logged at level info)" : "");
  return std::nullopt;
}

void ConfigChoices::remember_pending(const PlanRequest& request, const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (pending_.size() < parts_.options.plan_capacity) pending_.emplace(key, request);
}

void ConfigChoices::report_share() {
  if (!reported_share_.exchange(true))
    say(parts_.options, Level::warning, "tuning on first use has taken ", share_.spent_s(), " s of ", share_.elapsed_s(),
        " s, more than tune_share = ", share_.share(),
        " allows; until then new keys use the nearest record or the default configuration (said once)");
}

std::size_t ConfigChoices::tune_pending(double budget_s) {
  const double until_s = parts_.now_s() + budget_s;
  std::size_t count = 0;
  std::set<std::string, std::less<>> seen;  // a key that another process tunes becomes pending again
  while (true) {
    std::pair<std::string, PlanRequest> next;
    {
      const std::lock_guard lock(mutex_);
      const auto pending = std::ranges::find_if(pending_, [&](const auto& item) { return !seen.contains(item.first); });
      if (pending == pending_.end()) return count;
      next = *pending;
      pending_.erase(pending);
    }
    const auto& [key, request] = next;
    seen.insert(key);
    const std::optional<Known> before = keys_.find(key);
    if (before && !(*before)->pending) continue;
    keys_.erase_if([&](const Known& value) { return before && value == *before; });
    Phases phases;
    std::optional<Tuned> tuned;
    keys_.get(key, [&] { return find(request, key, Due::tuned, phases, tuned); });
    if (before) forget_plans_of(*before);
    if (tuned) ++count;
    if (parts_.now_s() >= until_s) return count;
  }
}

}  // namespace tunesmith
