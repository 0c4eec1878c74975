#include "api/engine/config_choices.h"

#include <set>
#include <utility>

#include "api/dispatch/plan_table.h"
#include "api/engine/log_text.h"
#include "api/engine/plan_request.h"
#include "tuner/recorded.h"

namespace tunesmith {
namespace {

using Level = EngineOptions::Level;

/// The text of a tuning key, without the parts that all keys of an engine share.
std::string key_text(const PlanRequest& request) {
  const KeyParts parts = request.problem->key();
  std::string text(request.problem->op().name());
  text.append(" ").append(parts.problem_class).append(" ").append(std::to_string(tuned_n_cols(parts)));
  text.append(" ").append(std::to_string(parts.rows_bucket)).append(" ").append(name(request.mode));
  return request.specialize == Specialize::automatic ? text.append(" auto") : text;
}

void share_kernel(KeyChoice& choice, const std::string& key) {
  choice.by_capacity = true;
  choice.key = key;
}

bool may_tune(Mode mode) { return mode == Mode::tune || mode == Mode::later; }

bool has_work(const PlanRequest& request, const KernelConfig& config, const DeviceInfo& device) {
  return !request.problem->launch_plan(config, device).kernels.empty();
}

}  // namespace

ConfigChoices::ConfigChoices(Engine::Parts& parts)
    : parts_(parts),
      share_(parts.options.tune_share, parts.options.tune_allowance_s, parts.now_s),
      keys_(parts.options.plan_capacity),
      capacities_(parts.options.plan_capacity),
      recorded_(parts.options.plan_capacity) {}

Choice ConfigChoices::choose(const PlanRequest& request, Phases& phases) {
  Choice choice;
  if (!request.pinned.fields.empty()) {
    choice.selection.config = request.problem->configure(request.pinned);
    choice.selection.origin = Origin::pinned;
    return choice;
  }
  if (request.specialize == Specialize::capacity) {
    choice.selection = {.config = capacity_config(*request.problem), .origin = Origin::capacity};
    return choice;
  }
  if (request.mode == Mode::off && request.specialize == Specialize::exact) {
    choice.selection = select_from(*request.problem, {});
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
    choice.selection = {.config = request.problem->configure(tuned->config), .origin = Origin::tuned};
    choice.tune_s = tuned->wall_s;
    choice.compile_ms = tuned->compile_ms;
    return choice;
  }
  if (known->by_capacity)
    choice.selection = {.config = capacity_config(*request.problem), .origin = Origin::capacity};
  else
    choice.selection = select_from(*request.problem, known->records);
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
  const TuningKey tuning = tuning_key(*request.problem, device, parts_.templates);
  Selection selection;
  {
    // Querying the driver takes milliseconds and is only needed for the message about stale records.
    const bool may_report = parts_.options.log && !reported_stale_;
    const auto provenance = may_report ? parts_.device->provenance() : std::map<std::string, std::string>();
    const PhaseTimer timer(phases.select_ms);
    known->records = known_records(*request.problem, tuning, *parts_.cache, provenance);
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
  const std::optional<WorkClaim> claim = claim_tuning(request, tuning, due == Due::tuned, *known);
  if (!claim) {
    known->pending = true;
    remember_pending(request, key);
    return known;
  }
  if (select(*request.problem, device, known->records).origin == Origin::exact) {  // another process has tuned it
    const std::lock_guard lock(mutex_);
    pending_.erase(key);
    return known;
  }
  const Cache::HostClaim host = claim_on_hosts(request, tuning, *known);
  if (host.is_elsewhere) {
    known->pending = true;
    remember_pending(request, key);
    return known;
  }
  if (host.lease && select(*request.problem, device, known->records).origin == Origin::exact) return known;
  tuned = tune(request, key);
  if (!tuned) return known;
  const std::lock_guard lock(mutex_);
  ++status_.tuned_keys;
  status_.tune_s += tuned->wall_s;
  pending_.erase(key);
  known->records.insert(known->records.begin(), {tuning.n_cols, request.problem->configure(tuned->config), Origin::exact});
  return known;
}

KernelConfig ConfigChoices::capacity_config(const ParsedProblem& problem) {
  std::string key(problem.op().name());
  key.append(" ").append(std::to_string(problem.capacity())).append(" ").append(problem.capacity_class());
  return capacities_.get(
      key, [&] { return problem.configure(problem.capacity_config(parts_.device->info()).value_or(Config())); });
}

Selection ConfigChoices::select_from(const ParsedProblem& problem, const std::vector<KnownRecord>& records) {
  Selection selection = select(problem, parts_.device->info(), records);
  if (selection.origin != Origin::by_default) return selection;
  const std::lock_guard lock(mutex_);
  KernelConfig& last = last_defaults_[&problem.op()];
  if (!(last == selection.config)) last = std::move(selection.config);
  selection.config = last;
  return selection;
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

void ConfigChoices::forget_plans_of(const Known& known) {
  const auto depends = [&](const Plan::State& plan) { return plan.key_choice == known; };
  parts_.plans->plans.erase_if([&](const auto& plan) { return depends(*plan); });
  parts_.plans->calls.erase_if([&](const KnownCall& call) { return depends(*call.plan); });
}

TuningStatus ConfigChoices::status() const {
  const std::lock_guard lock(mutex_);
  TuningStatus status = status_;
  status.pending_keys = static_cast<std::int64_t>(pending_.size());
  return status;
}

}  // namespace tunesmith
