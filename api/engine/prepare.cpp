#include "api/engine/prepare.h"

#include <iomanip>
#include <sstream>

#include "api/dispatch/plan_table.h"
#include "core/hash.h"
#include "templates/render.h"
#include "tuner/select.h"
#include "tuner/tune.h"

namespace tunesmith {
namespace {

using Level = EngineOptions::Level;

template <typename... Pieces>
void say(const EngineOptions& options, Level level, const Pieces&... pieces) {
  if (!options.log) return;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2);
  (text << ... << pieces);
  options.log(level, text.str());
}

/// The selected configuration and the cost of selecting it.
struct Choice {
  Selection selection;
  double tune_s = 0;
  double compile_ms = 0;  ///< of all candidates that the tuner compiled
};

bool has_work(const PlanRequest& request, const Config& config, const DeviceInfo& device) {
  return !request.problem->launch_plan(config, device).kernels.empty();
}

Choice tune_now(Engine::Parts& parts, const PlanRequest& request) {
  TuneOptions options;
  options.effort = parts.options.effort;
  options.budget_s = parts.options.tune_budget_s;
  const TuneResult result = tune(*request.problem, parts.bench(), options);
  say(parts.options, Level::info, "tuned ", request.problem->problem().short_text(), " in ", result.wall_s,
      " s: ", result.record.config, " takes ", result.record.median_us, " us, the default ", result.record.default_median_us,
      " us (", result.timed, " of ", result.candidates, " candidates timed)");
  Choice choice;
  choice.selection.config = {parse_fields(result.record.config, "tuned config")};
  choice.selection.origin = Origin::tuned;
  choice.selection.median_us = result.record.median_us;
  choice.tune_s = result.wall_s;
  if (result.compiled > 0) choice.compile_ms = 1e3 * result.compile_s;
  return choice;
}

Choice choose(Engine::Parts& parts, const PlanRequest& request) {
  const DeviceInfo& device = parts.device->info();
  Choice choice;
  if (!request.pinned.fields.empty()) {
    choice.selection.config = request.pinned;
    choice.selection.origin = Origin::pinned;
    return choice;
  }
  // Querying the driver takes milliseconds and is only needed for the message about stale records.
  const bool may_report = parts.options.log && request.mode != Mode::off && !parts.plans->reported_stale_records;
  const auto provenance = may_report ? parts.device->provenance() : std::map<std::string, std::string>();
  choice.selection = select(*request.problem, device, parts.templates, *parts.cache, request.mode, provenance);
  const Selection& selection = choice.selection;
  const bool may_tune = request.mode == Mode::tune && device.kind == DeviceInfo::Kind::cuda;
  if (may_tune && selection.origin != Origin::exact && has_work(request, selection.config, device))
    return tune_now(parts, request);
  if (selection.stale && !parts.plans->reported_stale_records.exchange(true))
    say(parts.options, Level::info, "the record for ", request.problem->problem().short_text(),
        " was measured under another driver, clock or power limit; it is used, and tuning with force measures it again "
        "(said once)");
  return choice;
}

/// Loads a binary. If the device rejects a cached one (for example, of a newer toolchain), compiles it again.
std::shared_ptr<Module> load(Engine::Parts& parts, const PlanRequest& request, Built& built) {
  try {
    return parts.device->load(built.binary);
  } catch (const Error& error) {
    if (!built.from_cache || error.code() != ErrorCode::device_failed) throw;
    say(parts.options, Level::warning, "the cached binary of ", request.problem->problem().short_text(), " cannot be loaded (",
        error.what(), "); compiling it again");
  }
  built.binary = parts.compiler->compile({std::string(request.problem->op().name()) + ".cu", built.source, parts.device->info().arch});
  built.from_cache = false;
  return parts.device->load(built.binary);
}

std::shared_ptr<const LoadedSource> build(Engine::Parts& parts, const PlanRequest& request, const Config& config) {
  const Arch& arch = parts.device->info().arch;
  Built built = build_binary(*request.problem, config, arch, *parts.compiler, *parts.cache, parts.templates);
  auto loaded = std::make_shared<LoadedSource>();
  loaded->module = load(parts, request, built);
  if (!built.from_cache)
    say(parts.options, Level::info, "compiled ", request.problem->problem().short_text(), " (", config.text(), ") for ", name(arch),
        " in ", built.binary.compile_ms, " ms");
  loaded->source = std::move(built.source);
  loaded->binary = std::move(built.binary);
  loaded->binary.image = {};
  loaded->from_cache = built.from_cache;
  return loaded;
}

}  // namespace

std::string PlanRequest::key() const {
  // A pinned configuration is used in every mode, so the key does not depend on the mode.
  return problem->problem().text() + (pinned.fields.empty() ? " mode=" + std::string(name(mode)) : " config " + pinned.text());
}

std::shared_ptr<const Plan::State> make_plan(Engine::Parts& parts, const PlanRequest& request) {
  Choice choice = choose(parts, request);
  auto state = std::make_shared<Plan::State>();
  state->device = parts.device;
  state->problem = request.problem;
  state->arrays = request.problem->arrays();
  state->config = std::move(choice.selection.config);
  state->origin = choice.selection.origin;
  state->nearest_n_cols = state->origin == Origin::nearest ? choice.selection.nearest_n_cols : 0;
  state->tune_s = choice.tune_s;
  state->compile_ms = choice.compile_ms;
  const Cost cost = request.problem->cost();
  state->bytes = cost.bytes();
  state->flops = cost.flops;

  LaunchPlan launch = request.problem->launch_plan(state->config, parts.device->info());
  std::string source = render(*request.problem, state->config, parts.templates);
  std::shared_ptr<Module> module;
  if (launch.kernels.empty()) {
    auto unloaded = std::make_shared<LoadedSource>();
    unloaded->source = std::move(source);
    state->loaded = std::move(unloaded);
  } else {
    bool built_here = false;
    state->loaded = parts.plans->modules.get(hash_hex(source), [&] {
      built_here = true;
      return build(parts, request, state->config);
    });
    if (built_here) state->compile_ms += state->loaded->from_cache ? 0 : state->loaded->binary.compile_ms;
    module = state->loaded->module;
    state->occupancy = module->occupancy(launch.kernels[launch.main_kernel]);
  }
  state->compiled = state->compile_ms > 0;
  state->executable = std::make_unique<Executable>(*parts.device, std::move(module), std::move(launch));
  return state;
}

}  // namespace tunesmith
