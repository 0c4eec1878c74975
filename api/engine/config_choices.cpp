#include "api/engine/config_choices.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/dispatch/plan_table.h"
#include "api/engine/log_text.h"
#include "api/engine/plan_request.h"
#include "api/engine/tune_apart.h"
#include "api/engine/tuning_report.h"
#include "tuner/recorded.h"
#include "tuner/tune.h"

namespace tunesmith {
namespace {

using Level = EngineOptions::Level;

/// The text of a tuning key, without what is the same for all keys of an engine.
std::string key_text(const PlanRequest& request) {
  const KeyParts parts = request.problem->key();
  std::string text(request.problem->op().name());
  text.append(" ").append(parts.problem_class).append(" ").append(std::to_string(tuned_n_cols(parts)));
  text.append(" ").append(std::to_string(parts.rows_bucket)).append(" ").append(name(request.mode));
  return request.specialize == Specialize::automatic ? text.append(" auto") : text;
}

/// Names the tuning key for Cache::claim().
std::string claim_text(const TuningKey& key) {
  std::string text = "tuning";
  for (const std::string& part : {key.op, key.problem_class, std::to_string(key.n_cols), std::to_string(key.rows_bucket),
                                  key.device_class, key.template_digest, key.policy})
    text.append("\n").append(part);
  return text;
}

void share_kernel(KeyChoice& choice, const std::string& key) {
  choice.by_capacity = true;
  choice.key = key;
}

bool may_tune(Mode mode) { return mode == Mode::tune || mode == Mode::later; }

bool has_work(const PlanRequest& request, const Config& config, const DeviceInfo& device) {
  return !request.problem->launch_plan(config, device).kernels.empty();
}

Tuned tune_here(Engine::Parts& parts, const ParsedProblem& problem, TuningReport& report) {
  TuneOptions options;
  options.effort = parts.options.effort;
  options.budget_s = parts.options.tune_budget_s;
  options.neighbours_first = parts.options.neighbours_first;
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

/// Returns what the exception being handled says. Throws it again if it means that the default itself is wrong.
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

ConfigChoices::ConfigChoices(Engine::Parts& parts)
    : parts_(parts),
      share_(parts.options.tune_share, parts.options.tune_allowance_s, parts.now_s),
      keys_(parts.options.plan_capacity),
      capacities_(parts.options.plan_capacity),
      recorded_(parts.options.plan_capacity) {}

Choice ConfigChoices::choose(const PlanRequest& request, Phases& phases) {
  const DeviceInfo& device = parts_.device->info();
  Choice choice;
  if (!request.pinned.fields.empty()) {
    choice.selection.config = request.pinned;
    choice.selection.origin = Origin::pinned;
    return choice;
  }
  if (request.specialize == Specialize::capacity) {
    choice.selection = {.config = capacity_config(*request.problem), .origin = Origin::capacity};
    return choice;
  }
  if (request.mode == Mode::off && request.specialize == Specialize::exact) {
    choice.selection = select(*request.problem, device, {});
    return choice;
  }

  const std::string key = key_text(request);
  std::optional<Tuned> tuned;
  bool made = false, often = false;
  const auto make = [&] {
    made = true;
    return find(request, key, often ? Due::exact : Due::if_allowed, phases, tuned);
  };
  Known known = keys_.get(key, make);
  const auto find_anew = [&] {
    keys_.erase_if([&](const Known& value) { return value == known; });
    const Known before = std::exchange(known, keys_.get(key, make));
    if (!known->pending || known->by_capacity != before->by_capacity) forget_plans_of(before);
  };
  if (known->pending && !made && request.mode == Mode::tune && share_.allows()) find_anew();
  if (known->by_capacity && is_often(known->uses.add())) {
    often = true;
    find_anew();
  }
  choice.key = known;
  if (tuned) {
    choice.selection = {.config = std::move(tuned->config), .origin = Origin::tuned};
    choice.tune_s = tuned->wall_s;
    choice.compile_ms = tuned->compile_ms;
    return choice;
  }
  if (known->by_capacity)
    choice.selection = {.config = capacity_config(*request.problem), .origin = Origin::capacity};
  else
    choice.selection = select(*request.problem, device, known->records);
  if (known->pending) {
    const std::lock_guard lock(mutex_);
    ++status_.untuned_plans;
  }
  if (choice.selection.origin == Origin::older)
    say(parts_.options, Level::info, "the record for ", request.problem->problem().short_text(),
        " was measured with older templates; it is used, and mode tune measures it again");
  if (choice.selection.stale && !reported_stale_.exchange(true))
    say(parts_.options, Level::info, "the record for ", request.problem->problem().short_text(),
        " was measured under another driver, clock or power limit; it is used, and tuning with force measures it again "
        "(said once)");
  return choice;
}

ConfigChoices::Known ConfigChoices::find(const PlanRequest& request, const std::string& key, Due due, Phases& phases,
                                         std::optional<Tuned>& tuned) {
  const DeviceInfo& device = parts_.device->info();
  auto known = std::make_shared<KeyChoice>();
  const bool tunes = may_tune(request.mode) && device.kind == DeviceInfo::Kind::cuda && !parts_.cache->is_pinned();
  const bool may_share = request.specialize == Specialize::automatic && due == Due::if_allowed;
  if (may_share && !(tunes && request.mode == Mode::tune && share_.allows()) &&
      (request.mode == Mode::off || !has_records(*request.problem))) {
    share_kernel(*known, key);
    known->pending = tunes;
    if (tunes) remember_pending(request, key);
    return known;
  }
  if (request.mode == Mode::off) return known;
  Selection selection;
  {
    // Querying the driver takes milliseconds and is only needed for the message about stale records.
    const bool may_report = parts_.options.log && !reported_stale_;
    const auto provenance = may_report ? parts_.device->provenance() : std::map<std::string, std::string>();
    const PhaseTimer timer(phases.select_ms);
    known->records = known_records(*request.problem, device, parts_.templates, *parts_.cache, provenance);
    selection = select(*request.problem, device, known->records);
  }
  if (!tunes || selection.origin == Origin::exact) return known;
  if (!has_work(request, selection.config, device)) {
    known->pending = true;  // another problem with this key may have work
    return known;
  }
  if (request.mode == Mode::later && due != Due::tuned) {
    known->pending = true;
    if (may_share) share_kernel(*known, key);
    remember_pending(request, key);
    return known;
  }
  const std::optional<TuneShare::Run> run = due == Due::tuned ? std::optional(share_.start()) : share_.try_start();
  if (!run) {
    known->pending = true;
    if (may_share) share_kernel(*known, key);
    remember_pending(request, key);
    report_share();
    return known;
  }
  const PhaseTimer timer(phases.tune_ms);
  const std::optional<WorkClaim> claim = claim_tuning(request, due == Due::tuned, *known);
  if (!claim) {
    known->pending = true;
    remember_pending(request, key);
    return known;
  }
  if (select(*request.problem, device, known->records).origin == Origin::exact) {  // of another process
    const std::lock_guard lock(mutex_);
    pending_.erase(key);
    return known;
  }
  const Cache::HostClaim host = claim_on_hosts(request, *known);
  if (host.is_elsewhere) {
    known->pending = true;
    remember_pending(request, key);
    return known;
  }
  if (host.lease && select(*request.problem, device, known->records).origin == Origin::exact) return known;
  tuned = tune(request);
  if (!tuned) return known;
  const std::lock_guard lock(mutex_);
  ++status_.tuned_keys;
  status_.tune_s += tuned->wall_s;
  pending_.erase(key);
  known->records.insert(known->records.begin(), {tuned_n_cols(request.problem->key()), tuned->config, Origin::exact});
  return known;
}

std::optional<WorkClaim> ConfigChoices::claim_tuning(const PlanRequest& request, bool force, KeyChoice& known) {
  const EngineOptions& options = parts_.options;
  const DeviceInfo& device = parts_.device->info();
  const std::string key = claim_text(tuning_key(*request.problem, device, parts_.templates));
  std::optional<WorkClaim> claim = parts_.cache->claim(key, std::chrono::milliseconds(0));
  const bool is_free = claim.has_value();
  const double start_s = parts_.now_s();
  // An owner that took too long once is not waited for again.
  const bool may_wait = request.mode == Mode::tune && !force && !reported_claim_;
  const double limit_s = may_wait ? tuning_limit_s(options.tune_budget_s, parts_.tuner_start_s) : 0;
  if (!is_free && limit_s > 0)
    claim = parts_.cache->claim(key, std::chrono::milliseconds(static_cast<std::int64_t>(1000 * limit_s)));
  // Whoever had the claim, now or since the records were read, may have stored a result.
  known.records = known_records(*request.problem, device, parts_.templates, *parts_.cache, {});
  // If there is none after a long time, tuning it here would hardly go better.
  const bool may_try = is_free || parts_.now_s() - start_s + options.tune_budget_s <= limit_s ||
                       select(*request.problem, device, known.records).origin == Origin::exact;
  if (claim && may_try) return claim;
  if (may_wait && !reported_claim_.exchange(true))
    say(options, Level::warning, "another process has been tuning ", request.problem->problem().short_text(), " for ",
        parts_.now_s() - start_s, " s; the nearest record or the default configuration is used (said once)");
  return std::nullopt;
}

Cache::HostClaim ConfigChoices::claim_on_hosts(const PlanRequest& request, KeyChoice& known) {
  constexpr double budgets = 3;  // a host that takes longer has lost its way
  const DeviceInfo& device = parts_.device->info();
  Cache::HostClaim host = parts_.cache->claim_host(tuning_key(*request.problem, device, parts_.templates),
                                                   budgets * parts_.options.tune_budget_s);
  // The host that had the claim before may have published its result since the records were read.
  if (host.lease) known.records = known_records(*request.problem, device, parts_.templates, *parts_.cache, {});
  return host;
}

Config ConfigChoices::capacity_config(const ParsedProblem& problem) {
  std::string key(problem.op().name());
  key.append(" ").append(std::to_string(problem.capacity())).append(" ").append(problem.capacity_class());
  return *capacities_.get(key, [&] {
    return std::make_shared<const Config>(problem.capacity_config(parts_.device->info()).value_or(Config()));
  });
}

bool ConfigChoices::has_records(const ParsedProblem& problem) {
  const KeyParts parts = problem.key();
  const std::string key = std::string(problem.op().name()) + " " + parts.problem_class;
  const auto all = recorded_.get(key, [&] {
    return std::make_shared<const std::set<std::int64_t>>(
        parts_.cache->find_n_cols(tuning_key(problem, parts_.device->info(), parts_.templates)));
  });
  return all->contains(tuned_n_cols(parts));
}

bool ConfigChoices::is_often(std::uint32_t uses) const noexcept {
  return parts_.options.exact_after != 0 && uses >= parts_.options.exact_after;
}

bool ConfigChoices::outgrows_capacity(const Plan::State& plan, Stream stream) {
  if (!is_often(plan.key_choice->uses.add()) || parts_.device->is_capturing(stream)) return false;
  // The uses were counted here, but the table may have dropped the key among many others: they would be lost.
  keys_.get(plan.key_choice->key, [&] { return plan.key_choice; });
  forget_plans_of(plan.key_choice);
  return true;
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

std::optional<Tuned> ConfigChoices::tune(const PlanRequest& request) {
  std::string reason;
  TuningReport report(parts_.options, request.problem->problem());
  try {
    std::optional<Tuned> tuned = tune_where(request, report);
    report.finish();
    return tuned;
  } catch (...) {
    if (report.is_cancelled()) {
      remember_pending(request, key_text(request));
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

void ConfigChoices::forget_plans_of(const Known& known) {
  const auto depends = [&](const Plan::State& plan) { return plan.key_choice == known; };
  parts_.plans->plans.erase_if([&](const auto& plan) { return depends(*plan); });
  parts_.plans->calls.erase_if([&](const KnownCall& call) { return depends(*call.plan); });
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

TuningStatus ConfigChoices::status() const {
  const std::lock_guard lock(mutex_);
  TuningStatus status = status_;
  status.pending_keys = static_cast<std::int64_t>(pending_.size());
  return status;
}

}  // namespace tunesmith
