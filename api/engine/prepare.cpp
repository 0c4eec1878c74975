#include "api/engine/prepare.h"

#include <functional>
#include <iomanip>
#include <optional>
#include <sstream>

#include "api/dispatch/plan_table.h"
#include "templates/render.h"
#include "templates/source_key.h"
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

Tuned tune_here(Engine::Parts& parts, const PlanRequest& request) {
  TuneOptions options;
  options.effort = parts.options.effort;
  options.budget_s = parts.options.tune_budget_s;
  const TuneResult result = tune(*request.problem, parts.bench(), options);
  say(parts.options, Level::info, "tuned ", request.problem->problem().short_text(), " in ", result.wall_s,
      " s: ", result.record.config, " takes ", result.record.median_us, " us, the default ", result.record.default_median_us,
      " us (", result.timed, " of ", result.candidates, " candidates timed)");
  return {
      {parse_fields(result.record.config, "tuned config")}, result.wall_s, result.compiled > 0 ? 1e3 * result.compile_s : 0};
}

Choice choose(Engine::Parts& parts, const PlanRequest& request, Phases& phases) {
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
  {
    const PhaseTimer timer(phases.select_ms);
    choice.selection = select(*request.problem, device, parts.templates, *parts.cache, request.mode, provenance);
  }
  const Selection& selection = choice.selection;
  const bool may_tune = request.mode == Mode::tune && device.kind == DeviceInfo::Kind::cuda;
  if (may_tune && selection.origin != Origin::exact && has_work(request, selection.config, device)) {
    const PhaseTimer timer(phases.tune_ms);
    if (std::optional<Tuned> tuned = parts.tuner ? parts.tuner(*request.problem) : tune_here(parts, request)) {
      choice.selection = {.config = std::move(tuned->config), .origin = Origin::tuned};
      choice.tune_s = tuned->wall_s;
      choice.compile_ms = tuned->compile_ms;
      return choice;
    }
  }
  if (selection.origin == Origin::older)
    say(parts.options, Level::info, "the record for ", request.problem->problem().short_text(),
        " was measured with older templates; it is used, and mode tune measures it again");
  if (selection.stale && !parts.plans->reported_stale_records.exchange(true))
    say(parts.options, Level::info, "the record for ", request.problem->problem().short_text(),
        " was measured under another driver, clock or power limit; it is used, and tuning with force measures it again "
        "(said once)");
  return choice;
}

/// Loads a binary. If the device rejects a cached one (for example, of a newer toolchain), compiles it again.
std::shared_ptr<Module> load(Engine::Parts& parts, const PlanRequest& request, const Config& config, Built& built) {
  const auto timed_load = [&] {
    const PhaseTimer timer(built.phases.load_ms);
    return parts.device->load(built.binary);
  };
  try {
    return timed_load();
  } catch (const Error& error) {
    if (!built.from_cache || error.code() != ErrorCode::device_failed) throw;
    say(parts.options, Level::warning, "the cached binary of ", request.problem->problem().short_text(),
        " cannot be loaded (", error.what(), "); compiling it again");
  }
  compile(*request.problem, config, parts.device->info().arch, *parts.compiler, parts.templates, built);
  return timed_load();
}

/// Renders the source anew, which may differ from an earlier version's in comments.
std::function<std::string()> rendering(const Engine::Parts& parts, const PlanRequest& request, const Config& config) {
  return [problem = request.problem, config, templates = parts.templates] { return render(*problem, config, templates); };
}

/// Where the source of a binary comes from: it was rendered just now, or the cache keeps it next to the binary.
std::function<std::string()> source_of(const Engine::Parts& parts, const PlanRequest& request, const Config& config,
                                       Built& built) {
  if (!built.source.empty()) return [source = std::move(built.source)]() mutable { return std::move(source); };
  return [cache = parts.cache, hash = built.source_hash, render_anew = rendering(parts, request, config)] {
    std::optional<std::string> source = cache->find_source(hash);
    return source ? std::move(*source) : render_anew();
  };
}

std::shared_ptr<const LoadedSource> build(Engine::Parts& parts, const PlanRequest& request, const Config& config,
                                          Phases& phases) {
  const Arch& arch = parts.device->info().arch;
  Built built = build_binary(*request.problem, config, arch, *parts.compiler, *parts.cache, parts.templates);
  std::shared_ptr<Module> module = load(parts, request, config, built);
  if (!built.from_cache)
    say(parts.options, Level::info, "compiled ", request.problem->problem().short_text(), " (", config.text(), ") for ",
        name(arch), " in ", built.binary.compile_ms, " ms");
  auto loaded = std::make_shared<LoadedSource>(source_of(parts, request, config, built));
  loaded->module = std::move(module);
  loaded->binary = std::move(built.binary);
  loaded->binary.image = {};
  loaded->from_cache = built.from_cache;
  phases += built.phases;
  return loaded;
}

}  // namespace

std::string PlanRequest::key() const {
  // A pinned configuration is used in every mode, so the key does not depend on the mode.
  return problem->problem().text() +
         (pinned.fields.empty() ? " mode=" + std::string(name(mode)) : " config " + pinned.text());
}

std::shared_ptr<const Plan::State> make_plan(Engine::Parts& parts, const PlanRequest& request) {
  auto state = std::make_shared<Plan::State>();
  Phases& phases = state->phases;
  Choice choice = choose(parts, request, phases);
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
  std::shared_ptr<Module> module;
  if (launch.kernels.empty()) {
    state->loaded = std::make_shared<LoadedSource>(rendering(parts, request, state->config));
  } else {
    bool built_here = false;
    std::string key;
    {
      const PhaseTimer timer(phases.digest_ms);
      key = source_key(*request.problem, state->config, parts.templates);
    }
    state->loaded = parts.plans->modules.get(key, [&] {
      built_here = true;
      return build(parts, request, state->config, phases);
    });
    if (built_here) state->compile_ms += state->loaded->from_cache ? 0 : state->loaded->binary.compile_ms;
    module = state->loaded->module;
  }
  state->compiled = state->compile_ms > 0;
  const PhaseTimer timer(phases.bind_ms);
  if (module != nullptr) state->occupancy = module->occupancy(launch.kernels[launch.main_kernel]);
  state->executable = std::make_unique<Executable>(*parts.device, std::move(module), std::move(launch));
  return state;
}

}  // namespace tunesmith
