#include "api/engine/prepare.h"

#include <algorithm>
#include <functional>

#include "api/dispatch/plan_table.h"
#include "api/engine/compile_ahead.h"
#include "api/engine/config_choices.h"
#include "api/engine/log_text.h"
#include "templates/render.h"

namespace tunesmith {
namespace {

using Level = EngineOptions::Level;

/// Returns the text of the fields that decide the source, with the configuration.
std::string source_fields(const ParsedProblem& problem, const KernelConfig& config, std::int64_t capacity) {
  const std::span<const FieldInfo> infos = problem.op().cached_fields();
  std::string text = problem.problem().op;
  if (capacity != 0) return text.append(" ").append(problem.capacity_class()).append(" ").append(config.text());
  auto info = infos.begin();  // the fields have this order, too
  for (const auto& [name, value] : problem.problem().fields) {
    while (info != infos.end() && info->name != name) ++info;
    if (info != infos.end() && info->runtime) continue;
    const std::string of_field = tunesmith::text(value);
    // The length, because a user's source may contain anything.
    text.append(" ").append(name).append("=").append(std::to_string(of_field.size())).append(":").append(of_field);
  }
  return text.append(" ").append(config.text());
}

/// Loads a binary. If the device rejects a cached one (for example, of a newer toolchain), compiles it again.
std::shared_ptr<Module> load(Engine::Parts& parts, const PlanRequest& request, const KernelSource& source, Built& built) {
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
  compile(source, parts.device->info().arch, *parts.compiler, built);
  return timed_load();
}

/// Returns a function that renders the source anew; comments may differ from an earlier version's.
std::function<std::string()> rendering(const Engine::Parts& parts, const PlanRequest& request, const KernelConfig& config) {
  return [problem = request.problem, config, templates = parts.templates] {
    return KernelSource(*problem, config, templates).render();
  };
}

/// Returns a function that fetches a binary's source: just rendered, from the cache, or rendered anew.
std::function<std::string()> source_of(const Engine::Parts& parts, const PlanRequest& request, const KernelConfig& config,
                                       Built& built) {
  if (!built.source.empty()) return [source = std::move(built.source)]() mutable { return std::move(source); };
  return [cache = parts.cache, hash = built.source_hash, render_anew = rendering(parts, request, config)] {
    std::optional<std::string> source = cache->find_source(hash);
    return source ? std::move(*source) : render_anew();
  };
}

std::shared_ptr<const LoadedSource> build(Engine::Parts& parts, const PlanRequest& request, const KernelConfig& config,
                                          const KernelSource& source, Phases& phases) {
  const Arch& arch = parts.device->info().arch;
  Built built = build_binary(source, arch, *parts.compiler, *parts.cache);
  std::shared_ptr<Module> module = load(parts, request, source, built);
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
  return problem->problem().text() + (pinned.fields.empty()
                                          ? " mode=" + std::string(name(mode)) + " " + std::string(name(specialize))
                                          : " config " + pinned.text());
}

std::shared_ptr<const Plan::State> make_plan(Engine::Parts& parts, const PlanRequest& request) {
  auto state = std::make_shared<Plan::State>();
  Phases& phases = state->phases;
  Choice choice = parts.choices->choose(request, phases);
  state->device = parts.device;
  state->problem = request.problem;
  state->config = std::move(choice.selection.config);
  state->origin = choice.selection.origin;
  if (const Value* capacity = state->config.config().fields.find("capacity"); capacity != nullptr)
    state->capacity = std::get<std::int64_t>(*capacity);
  state->nearest_n_cols = state->origin == Origin::nearest ? choice.selection.nearest_n_cols : 0;
  state->key_choice = std::move(choice.key);
  state->counts_uses = state->origin == Origin::capacity && state->key_choice != nullptr && parts.options.exact_after != 0;
  state->tune_s = choice.tune_s;
  state->compile_ms = choice.compile_ms;

  LaunchPlan launch = request.problem->launch_plan(state->config, parts.device->info());
  std::shared_ptr<Module> module;
  if (launch.kernels.empty()) {
    state->loaded = std::make_shared<LoadedSource>(rendering(parts, request, state->config));
  } else {
    bool built_here = false;
    const auto find_module = [&] {
      const KernelSource source = [&] {
        const PhaseTimer timer(phases.digest_ms);
        return KernelSource(*request.problem, state->config, parts.templates);
      }();
      return parts.plans->modules.get(source.key(), [&] {
        built_here = true;
        return build(parts, request, state->config, source, phases);
      });
    };
    state->loaded = parts.plans->binaries.get(source_fields(*request.problem, state->config, state->capacity), find_module);
    if (built_here && !state->loaded->from_cache) {
      state->compile_ms += state->loaded->binary.compile_ms;
      if (state->origin == Origin::capacity) parts.compile_ahead->compiled(*request.problem);
    }
    module = state->loaded->module;
  }
  state->compiled = state->compile_ms > 0;
  const PhaseTimer timer(phases.bind_ms);
  state->executable =
      std::make_unique<Executable>(*parts.device, std::move(module), std::move(launch), &parts.plans->workspaces);
  return state;
}

}  // namespace tunesmith
