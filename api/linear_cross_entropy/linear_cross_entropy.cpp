#include "tunesmith/linear_cross_entropy.h"

#include <array>
#include <optional>
#include <vector>

#include "api/dispatch/addresses.h"
#include "api/engine/parts.h"
#include "api/linear_cross_entropy/arrays.h"
#include "api/linear_cross_entropy/chunk.h"
#include "api/linear_cross_entropy/description.h"
#include "core/half.h"
#include "jit/workspaces.h"
#include "templates/cross_entropy/finalize_op.h"
#include "templates/cross_entropy/upstream_op.h"

namespace tunesmith {
namespace {

/// Checks all fields. Throws Error(invalid_argument).
void check(const LinearCrossEntropyProblem& problem) {
  const auto describe = [](const LinearCrossEntropyProblem& described) {
    return Description([&](Description& description) { describe_linear_fields(described, description); });
  };
  const LinearCrossEntropyProblem defaults;
  const Description description = describe(problem);
  description.check(description.given_form(describe(defaults)));
}

std::optional<Plan> prepare_divisor(Engine& engine, const LinearCrossEntropyProblem& problem) {
  if (problem.reduction != Reduction::mean) return {};
  const cross_entropy::DivisorProblem divisor{.rows = problem.tokens,
                                              .cols = problem.vocab_size,
                                              .target_dtype = problem.target_dtype,
                                              .ignore_index = problem.ignore_index,
                                              .weight = problem.class_weight,
                                              .dloss = problem.dloss ? Upstream::scalar : Upstream::none,
                                              .scaled_weight = has_scaled_weight(problem)};
  return engine.prepare(divisor, {.mode = Mode::off});
}

std::optional<Plan> prepare_upstream(Engine& engine, const LinearCrossEntropyProblem& problem) {
  if (!problem.dlse || problem.fused) return {};
  const cross_entropy::UpstreamProblem upstream{.rows = problem.tokens,
                                                .dloss = has_row_dloss(problem) ? Upstream::row : Upstream::scalar};
  return engine.prepare(upstream, {.mode = Mode::off});
}

std::optional<Plan> prepare_reduce(Engine& engine, const LinearCrossEntropyProblem& problem) {
  if (problem.reduction == Reduction::none) return {};
  const cross_entropy::ReduceProblem reduce{
      .rows = problem.tokens, .z_losses = problem.z_loss > 0, .divisor = problem.reduction == Reduction::mean};
  return engine.prepare(reduce, {.mode = Mode::off});
}

std::unique_ptr<const LinearChunk> prepare_chunk(Engine& engine, MatmulLibrary* matmul,
                                                 const LinearCrossEntropyProblem& problem, const LinearChunks& chunks,
                                                 std::int64_t rows, const PrepareOptions& options) {
  if (problem.fused) return prepare_fused_chunk(engine, problem, chunks, rows, options);
  return prepare_stored_chunk(engine, *matmul, problem, chunks, rows, options);
}

constexpr std::size_t ones_at = 256;  // offset in the constants

}  // namespace

struct LinearCrossEntropy::State {
  std::shared_ptr<Device> device;         // first, so that it is destroyed last
  std::shared_ptr<MatmulLibrary> matmul;  ///< null if fused
  LinearCrossEntropyProblem problem;
  LinearChunks chunks;
  std::unique_ptr<const LinearChunk> whole, tail;  ///< tail: the last chunk if it has fewer tokens
  std::optional<Plan> divisor, upstream, reduce;
  std::byte* constants = nullptr;  ///< in device memory: 0 and 1 in f32, and with dbias a chunk's row of ones in dtype
  std::unique_ptr<Workspaces> workspaces;

  State(Engine& engine, const LinearCrossEntropyProblem& given, const PrepareOptions& options);
  ~State() {
    if (constants != nullptr) device->release(constants);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const float* zero() const noexcept { return reinterpret_cast<const float*>(constants); }
  const float* one() const noexcept { return zero() + 1; }
  const std::byte* ones() const noexcept { return constants + ones_at; }
  void launch(const LinearCrossEntropyArrays& arrays, std::byte* workspace, Stream stream) const;
};

LinearCrossEntropy::State::State(Engine& engine, const LinearCrossEntropyProblem& given, const PrepareOptions& options)
    : device(engine.parts().device),
      matmul((check(given), given.fused ? nullptr : engine.parts().matmul())),
      problem(given),
      chunks(divide(given, matmul != nullptr ? matmul->workspace_bytes() : 0)),
      whole(prepare_chunk(engine, matmul.get(), given, chunks, chunks.chunk_tokens, options)),
      divisor(prepare_divisor(engine, given)),
      upstream(prepare_upstream(engine, given)),
      reduce(prepare_reduce(engine, given)) {
  // Use the same configuration for the tail: it is not worth tuning separately.
  if (chunks.tail_tokens > 0 && chunks.chunks > 1)
    tail = prepare_chunk(engine, matmul.get(), given, chunks, chunks.tail_tokens,
                         {.config = whole->loss().config(), .mode = options.mode});
  if (!problem.caller_workspace) workspaces = std::make_unique<Workspaces>(*device, chunks.bytes, 1);
  std::vector<std::byte> values(ones_at +
                                static_cast<std::size_t>(given.dbias ? chunks.chunk_tokens * size_of(given.dtype) : 0));
  write_element(DType::f32, values.data(), 1, 1.0f);
  if (given.dbias)
    for (std::int64_t t = 0; t < chunks.chunk_tokens; ++t) write_element(given.dtype, values.data() + ones_at, t, 1.0f);
  constants = static_cast<std::byte*>(device->allocate(values.size()));
  device->copy_to_device(constants, values.data(), values.size());
}

void LinearCrossEntropy::State::launch(const LinearCrossEntropyArrays& arrays, std::byte* workspace, Stream stream) const {
  const auto floats_at = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace + offset); };
  const float* scale = one();
  if (divisor) {
    Addresses<12> list;
    list.add(arrays.targets);
    list.add_if(problem.class_weight, arrays.class_weight);
    list.add_if(problem.dloss, arrays.dloss);
    list.add(floats_at(chunks.divisor));
    list.add(floats_at(chunks.gradient_scale));
    list.add_if(has_scaled_weight(problem), floats_at(chunks.scaled_weight));
    divisor->launch(list.span(), stream);
    scale = floats_at(chunks.gradient_scale);
  } else if (problem.dloss && problem.reduction == Reduction::sum) {
    scale = arrays.dloss;
  }
  if (upstream) {
    Addresses<5> list;
    list.add(has_row_dloss(problem) ? arrays.dloss : scale);
    list.add(arrays.dlse);
    list.add(floats_at(chunks.factor));
    list.add(floats_at(chunks.dloss));
    list.add(floats_at(chunks.dlse));
    upstream->launch(list.span(), stream);
    scale = floats_at(chunks.factor);
  }

  const LinearLaunch launch{arrays, scale, zero(), one(), ones(), workspace, stream};
  for (std::int64_t i = 0; i < chunks.chunks; ++i)
    (tail != nullptr && i == chunks.chunks - 1 ? tail : whole)->launch(launch, i * chunks.chunk_tokens);
  if (problem.tokens == 0) {
    const auto clear = [&](void* array, std::int64_t elements) {
      device->fill_async(array, 0, static_cast<std::size_t>(elements * size_of(dweight_dtype(problem))), stream);
    };
    if (problem.dweight) clear(arrays.dweight, problem.vocab_size * problem.hidden_size);
    if (problem.dbias) clear(arrays.dbias, problem.vocab_size);
  }

  if (!reduce) return;
  Addresses<12> list;
  list.add(floats_at(chunks.losses));
  list.add_if(problem.z_loss > 0, floats_at(chunks.z_losses));
  list.add_if(divisor.has_value(), floats_at(chunks.divisor));
  list.add(arrays.loss);
  // The matrix products are complete, so a z_loss that was not requested can overwrite their factor.
  list.add_if(problem.z_loss > 0, arrays.z_loss != nullptr ? arrays.z_loss : floats_at(chunks.gradient_scale));
  reduce->launch(list.span(), stream);
}

LinearCrossEntropy::LinearCrossEntropy(Engine& engine, const LinearCrossEntropyProblem& problem,
                                       const PrepareOptions& options)
    : state_(std::make_shared<const State>(engine, problem, options)) {}

void LinearCrossEntropy::launch(const LinearCrossEntropyArrays& arrays, Stream stream) const {
  check_arrays(state_->problem, arrays, state_->chunks.bytes);
  Workspaces::InOrder used{arrays.workspace, {}};
  if (state_->workspaces != nullptr) used = state_->workspaces->in_order(stream);
  state_->launch(arrays, static_cast<std::byte*>(used.memory), stream);
}

std::size_t LinearCrossEntropy::workspace_bytes() const noexcept { return state_->chunks.bytes; }
std::int64_t LinearCrossEntropy::chunk_tokens() const noexcept { return state_->chunks.chunk_tokens; }
std::int64_t LinearCrossEntropy::chunks() const noexcept { return state_->chunks.chunks; }
const LinearCrossEntropyProblem& LinearCrossEntropy::problem() const noexcept { return state_->problem; }
const Plan& LinearCrossEntropy::cross_entropy() const noexcept { return state_->whole->loss(); }

}  // namespace tunesmith
