// Engine: the parts put together, plans remembered, one-shot calls dispatched.

#include "tunesmith/engine.h"

#include <array>
#include <cmath>

#include "api/engine_parts.h"
#include "api/plan_table.h"
#include "api/prepare.h"

namespace tunesmith {
namespace {

std::unique_ptr<Engine::Parts> open_parts(EngineOptions options) {
  if (!std::isfinite(options.tune_budget_s) || options.tune_budget_s <= 0)
    throw Error(ErrorCode::invalid_argument, "tune_budget_s is ", options.tune_budget_s, "; expected seconds above 0");
  auto parts = std::make_unique<Engine::Parts>();
  if (!options.templates_folder.empty()) parts->templates = TemplateSet::from_folder(options.templates_folder);
  parts->device = open_device(options.device, options.log);
  parts->compiler = open_compiler(parts->device->info().kind, options);
  CacheOptions cache;
  cache.file = options.cache_file;
  cache.system_files = options.system_caches;
  if (options.log) cache.warn = [log = options.log](const std::string& text) { log(EngineOptions::Level::warning, text); };
  parts->cache = std::make_shared<Cache>(std::move(cache));
  parts->options = std::move(options);
  return parts;
}

/// The first call for a key: names what is wrong with the addresses in the caller's terms, then prepares.
Plan prepare_softmax(Engine& engine, const void* x, const void* y, SoftmaxProblem problem, Stream stream) {
  const std::array<DType, 2> dtypes{problem.dtype, problem.out_dtype};
  const std::array<const void*, 2> addresses{x, y};
  std::array<std::int64_t, 2> alignments{};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::int64_t element = size_of(dtypes[i]);
    // Without rows nothing is touched, and an address may be anything.
    alignments[i] = problem.rows == 0 ? element : static_cast<std::int64_t>(alignment_class(addresses[i]));
    if (problem.rows > 0 && addresses[i] == nullptr)
      throw Error(ErrorCode::invalid_argument, i == 0 ? "x" : "y", " is a null pointer; expected device memory");
    if (alignments[i] < element)
      throw Error(ErrorCode::invalid_argument, i == 0 ? "x" : "y", " is at ", addresses[i], "; ", name(dtypes[i]),
                  " needs an address that is a multiple of ", element, " bytes");
  }
  problem.x_alignment = alignments[0];
  problem.y_alignment = alignments[1];
  problem.in_place = x == y && problem.rows > 0;
  return engine.prepare(problem, {}, stream);
}

}  // namespace

Engine::Parts::Parts() : templates(TemplateSet::embedded()), plans(std::make_unique<PlanTable>()) {}
Engine::Parts::~Parts() = default;

Engine::Engine(EngineOptions options) : Engine(open_parts(std::move(options))) {}
Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Plan Engine::prepare(const Problem& problem, const PrepareOptions& options, Stream stream) {
  PlanRequest request;
  request.op = &find_op(problem.op);
  request.problem = request.op->normalize(problem);
  request.mode = options.mode.value_or(parts_->options.mode);
  if (!options.config.fields.empty())
    request.pinned = request.op->complete_config(request.problem, parts_->device->info(), options.config);

  const std::string key = request.key();
  if (auto state = parts_->plans->plans.find(key)) return Plan(std::move(*state));
  if (parts_->device->is_capturing(stream))
    throw Error(
        ErrorCode::capturing, "no plan exists for ", request.problem.text(),
        " and none can be made while the stream is capturing; call Engine::prepare for it before the capture begins");
  return Plan(parts_->plans->plans.get(key, [&] { return make_plan(*parts_, request); }));
}

Plan Engine::prepare(const SoftmaxProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}

void Engine::softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream) {
  const SoftmaxKey key(x, y, problem);
  auto& table = parts_->plans->softmax;
  const Executable* executable = table.find(key);
  if (executable == nullptr) [[unlikely]] {
    executable = prepare_softmax(*this, x, y, problem, stream).state().executable.get();
    table.insert(key, *executable);  // the plan table keeps it alive
  }
  const std::array<void*, 2> arrays{const_cast<void*>(x), y};
  executable->enqueue(arrays, stream);
}

void Engine::run(const Problem& problem, std::span<void* const> arrays, Stream stream) {
  prepare(problem, {}, stream).launch(arrays, stream);
}

void Engine::synchronize(Stream stream) { parts_->device->synchronize(stream); }

const DeviceInfo& Engine::device() const noexcept { return parts_->device->info(); }
const EngineOptions& Engine::options() const noexcept { return parts_->options; }
Engine::Parts& Engine::parts() noexcept { return *parts_; }

}  // namespace tunesmith
