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
  if (!problem.dlse) return {};
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

constexpr std::size_t ones_at = 256;  // offset in the constants

/// Returns the address of a chunk's rows; nullptr if the array is null.
template <typename T>
T* part(T* array, std::int64_t elements, std::int64_t element_bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return array == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + elements * element_bytes);
}

}  // namespace

struct LinearCrossEntropy::State {
  std::shared_ptr<Device> device;  // first, so that it is destroyed last
  std::shared_ptr<MatmulLibrary> matmul;
  LinearCrossEntropyProblem problem;
  LinearChunks chunks;
  LinearChunk whole;
  std::optional<LinearChunk> tail;
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
  void launch_chunk(const LinearChunk& chunk, std::int64_t first, const LinearCrossEntropyArrays& arrays, const float* scale,
                    std::byte* workspace, Stream stream) const;
};

LinearCrossEntropy::State::State(Engine& engine, const LinearCrossEntropyProblem& given, const PrepareOptions& options)
    : device(engine.parts().device),
      matmul((check(given), engine.parts().matmul())),
      problem(given),
      chunks(divide(given, matmul->workspace_bytes())),
      whole(prepare_chunk(engine, *matmul, given, chunks, chunks.chunk_tokens, options)),
      divisor(prepare_divisor(engine, given)),
      upstream(prepare_upstream(engine, given)),
      reduce(prepare_reduce(engine, given)) {
  // Use the same configuration for the tail: it is not worth tuning separately.
  if (chunks.tail_tokens > 0 && chunks.chunks > 1)
    tail = prepare_chunk(engine, *matmul, given, chunks, chunks.tail_tokens,
                         {.config = whole.cross_entropy.config(), .mode = options.mode});
  if (!problem.caller_workspace) workspaces = std::make_unique<Workspaces>(*device, chunks.bytes, 1);
  std::vector<std::byte> values(ones_at +
                                static_cast<std::size_t>(given.dbias ? chunks.chunk_tokens * size_of(given.dtype) : 0));
  write_element(DType::f32, values.data(), 1, 1.0f);
  if (given.dbias)
    for (std::int64_t t = 0; t < chunks.chunk_tokens; ++t) write_element(given.dtype, values.data() + ones_at, t, 1.0f);
  constants = static_cast<std::byte*>(device->allocate(values.size()));
  device->copy_to_device(constants, values.data(), values.size());
}

void LinearCrossEntropy::State::launch_chunk(const LinearChunk& chunk, std::int64_t first,
                                             const LinearCrossEntropyArrays& arrays, const float* scale,
                                             std::byte* workspace, Stream stream) const {
  const bool each = problem.reduction == Reduction::none;
  const auto* const hidden = part(arrays.hidden, first * problem.hidden_size, size_of(problem.dtype));
  const auto floats_at = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace + offset); };
  void *const logits = workspace + chunks.logits, *const dlogits = workspace + chunks.dlogits;
  void* const scratch = workspace + chunks.matmul;

  chunk.logits->enqueue({hidden, arrays.weight, logits, nullptr, nullptr, scratch, arrays.bias}, stream);

  const float* const z_losses = each && arrays.z_loss != nullptr ? arrays.z_loss : floats_at(chunks.z_losses);
  const void* const targets = part(arrays.targets, first, size_of(problem.target_dtype));
  const void* const weight = has_scaled_weight(problem) ? floats_at(chunks.scaled_weight) : arrays.class_weight;
  float* const lse = arrays.lse != nullptr ? arrays.lse + first : floats_at(chunks.lse);
  float* const nll = arrays.nll != nullptr ? arrays.nll + first : floats_at(chunks.nll);
  Addresses<12> list;
  list.add(logits);
  list.add(targets);
  list.add_if(problem.class_weight, weight);
  list.add_if(has_row_dloss(problem) && !problem.dlse, part(arrays.dloss, first, 4));
  list.add_if(scales_dlogits(problem), scale);
  list.add((each ? arrays.loss : floats_at(chunks.losses)) + first);
  list.add(lse);
  list.add_if(problem.z_loss > 0, z_losses + first);
  list.add_if(problem.nll || problem.dlse, nll);
  list.add_if(problem.argmax, part(arrays.argmax, first, size_of(problem.target_dtype)));
  list.add_if(has_gradient(problem) && !problem.dlse, dlogits);
  chunk.cross_entropy.launch(list.span(), stream);

  if (chunk.cross_entropy_backward) {
    Addresses<8> backward;
    backward.add(logits);
    backward.add(targets);
    backward.add(lse);
    backward.add(floats_at(chunks.dloss) + (has_row_dloss(problem) ? first : 0));
    backward.add(nll);
    backward.add_if(problem.class_weight, weight);
    backward.add(floats_at(chunks.dlse) + first);
    backward.add(dlogits);
    chunk.cross_entropy_backward->launch(backward.span(), stream);
  }

  const bool is_first = first == 0;
  const float* const sum_before = is_first ? zero() : one();
  if (problem.dhidden)
    chunk.dhidden->enqueue(
        {dlogits, arrays.weight, part(arrays.dhidden, first * problem.hidden_size, size_of(problem.dtype)), scale, zero(),
         scratch},
        stream);
  if (problem.dweight)
    chunk.dweight.of_chunk(is_first).enqueue({dlogits, hidden, arrays.dweight, scale, sum_before, scratch}, stream);
  if (problem.dbias)
    chunk.dbias.of_chunk(is_first).enqueue({ones(), dlogits, arrays.dbias, scale, sum_before, scratch}, stream);
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

  for (std::int64_t i = 0; i < chunks.chunks; ++i)
    launch_chunk(tail && i == chunks.chunks - 1 ? *tail : whole, i * chunks.chunk_tokens, arrays, scale, workspace, stream);
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
const Plan& LinearCrossEntropy::cross_entropy() const noexcept { return state_->whole.cross_entropy; }

}  // namespace tunesmith
