// Engine: owns the components and caches plans. One-shot calls are in api/dispatch/one_shot_*.cpp.

#include "tunesmith/engine.h"

#include <cmath>

#include "api/dispatch/plan_table.h"
#include "api/engine/cache_files.h"
#include "api/engine/compile_ahead.h"
#include "api/engine/config_choices.h"
#include "api/engine/log_text.h"
#include "api/engine/parts.h"
#include "api/engine/prepare.h"
#include "api/engine/problem_log.h"

namespace tunesmith {
namespace {

void check(const EngineOptions& options) {
  if (!std::isfinite(options.tune_budget_s) || options.tune_budget_s <= 0)
    throw Error(ErrorCode::invalid_argument, "tune_budget_s is ", options.tune_budget_s, "; expected seconds above 0");
  if (!std::isfinite(options.tune_share) || options.tune_share < 0)
    throw Error(ErrorCode::invalid_argument, "tune_share is ", options.tune_share, "; expected at least 0");
  if (!std::isfinite(options.tune_allowance_s) || options.tune_allowance_s < 0)
    throw Error(ErrorCode::invalid_argument, "tune_allowance_s is ", options.tune_allowance_s,
                "; expected seconds, at least 0");
  if (options.plan_capacity < 8)
    throw Error(ErrorCode::invalid_argument, "plan_capacity is ", options.plan_capacity, "; expected at least 8");
}

std::unique_ptr<Engine::Parts> open_parts(EngineOptions options) {
  check(options);
  auto parts = std::make_unique<Engine::Parts>();
  if (!options.templates_folder.empty()) parts->templates = TemplateSet::from_folder(options.templates_folder);
  parts->device = open_device(options.device, options.log);
  parts->compiler = open_compiler(parts->device->info().kind, options);
  parts->cache = std::make_shared<Cache>(cache_options(options));
  parts->options = std::move(options);
  return parts;
}

/// Completes a configuration; with `capacity`, as one for a bucket of n_cols.
Config pinned_config(const Engine::Parts& parts, const PlanRequest& request, Config config) {
  const DeviceInfo& device = parts.device->info();
  if (request.specialize == Specialize::capacity && !config.fields.contains("capacity"))
    config.fields.set("capacity", request.problem->capacity_config(device).value_or(Config()).fields.integer("capacity"));
  return request.problem->complete_config(device, config);
}

std::shared_ptr<const Plan::State> prepare_parsed(Engine::Parts& parts, ParsedProblemPtr problem,
                                                  const PrepareOptions& options, Stream stream) {
  PlanRequest request;
  request.problem = std::move(problem);
  request.mode = options.mode.value_or(parts.options.mode);
  request.specialize = options.specialize.value_or(parts.options.specialize);
  if (request.problem->capacity() == 0) request.specialize = Specialize::exact;
  if (!options.config.fields.empty()) request.pinned = pinned_config(parts, request, options.config);

  if (parts.problem_log != nullptr && request.pinned.fields.empty()) parts.problem_log->count(*request.problem);
  const std::string key = request.key();
  if (auto state = parts.plans->plans.find(key))
    if (!(*state)->counts_uses || !parts.choices->outgrows_capacity(**state, stream)) return std::move(*state);
  if (parts.device->is_capturing(stream))
    throw Error(ErrorCode::capturing, "no plan exists for ", request.problem->problem().short_text(),
                " and none can be prepared during a stream capture; call Engine::prepare before the capture begins");
  try {
    return parts.plans->plans.get(key, [&] { return make_plan(parts, request); });
  } catch (const Error& error) {
    // Without a compiler, a cache may have the binary of the problem's own kernel.
    if (error.code() != ErrorCode::no_compiler || request.specialize != Specialize::automatic) throw;
    request.specialize = Specialize::exact;
    return parts.plans->plans.get(request.key(), [&] { return make_plan(parts, request); });
  }
}

}  // namespace

Engine::Parts::Parts() : templates(TemplateSet::embedded()) {}
Engine::Parts::~Parts() = default;

std::shared_ptr<MatmulLibrary> Engine::Parts::matmul() {
  const std::lock_guard lock(matmul_mutex_);
  if (matmul_ == nullptr) matmul_ = open_matmul(device, options);
  return matmul_;
}

Engine::Engine(EngineOptions options) : Engine(open_parts(std::move(options))) {}
Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  parts_->plans = std::make_unique<PlanTable>(*parts_->device, parts_->options.plan_capacity);
  parts_->choices = std::make_unique<ConfigChoices>(*parts_);
  parts_->compile_ahead = std::make_unique<CompileAhead>(*parts_);
  const EngineOptions& options = parts_->options;
  if (!options.problem_log.empty())
    parts_->problem_log = std::make_unique<ProblemLog>(
        options.problem_log, options.plan_capacity,
        [&options](const std::string& text) { say(options, EngineOptions::Level::warning, text); });
}
Engine::~Engine() = default;

Plan Engine::prepare(const Problem& problem, const PrepareOptions& options, Stream stream) {
  return Plan(prepare_parsed(*parts_, find_op(problem.op).parse(problem), options, stream));
}

Plan Engine::prepare_typed(std::string_view op, const std::type_info& type, const void* problem,
                           const PrepareOptions& options, Stream stream) {
  ParsedProblemPtr parsed = find_op(op).parse_typed(type, problem);
  if (parsed == nullptr) throw Error(ErrorCode::invalid_argument, "the problem is not of the struct that describes ", op);
  return Plan(prepare_parsed(*parts_, std::move(parsed), options, stream));
}

void Engine::run(const Problem& problem, std::span<void* const> arrays, Stream stream) {
  prepare(problem, {}, stream).launch(arrays, stream);
}

void Engine::run(const Problem& problem, std::initializer_list<NamedArray> arrays, Stream stream) {
  prepare(problem, {}, stream).launch(arrays, stream);
}

void Engine::run(const Problem& problem, std::span<const NamedArray> arrays, Stream stream) {
  prepare(problem, {}, stream).launch(arrays, stream);
}

TuningStatus Engine::tuning() const { return parts_->choices->status(); }

std::size_t Engine::tune_pending(double budget_s) { return parts_->choices->tune_pending(budget_s); }

void Engine::synchronize(Stream stream) { parts_->device->synchronize(stream); }

const DeviceInfo& Engine::device() const noexcept { return parts_->device->info(); }
const EngineOptions& Engine::options() const noexcept { return parts_->options; }
Engine::Parts& Engine::parts() noexcept { return *parts_; }

}  // namespace tunesmith
