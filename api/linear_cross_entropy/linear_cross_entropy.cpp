#include "tunesmith/linear_cross_entropy.h"

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "api/dispatch/one_shot.h"
#include "api/engine/parts.h"
#include "api/linear_cross_entropy/chunks.h"
#include "api/linear_cross_entropy/description.h"
#include "jit/workspaces.h"
#include "templates/cross_entropy/finalize_op.h"

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

CrossEntropyProblem chunk_problem(const LinearCrossEntropyProblem& problem, const LinearChunks& chunks, std::int64_t rows) {
  const bool gradient = problem.dhidden || problem.dweight;
  CrossEntropyProblem chunk;
  chunk.rows = rows;
  chunk.cols = problem.vocab_size;
  chunk.dtype = problem.f32_logits ? DType::f32 : problem.dtype;
  chunk.target_dtype = problem.target_dtype;
  chunk.logits_row_stride = chunks.row_stride;
  chunk.ignore_index = problem.ignore_index;
  chunk.label_smoothing = problem.label_smoothing;
  chunk.z_loss = problem.z_loss;
  chunk.scale = problem.scale;
  chunk.softcap = problem.softcap;
  chunk.reduction = Reduction::none;
  chunk.weight = problem.class_weight;
  chunk.nll = problem.nll;
  chunk.argmax = problem.argmax;
  if (!gradient) return chunk;
  chunk.gradient = has_separate_dlogits(problem) ? Gradient::separate : Gradient::in_place;
  chunk.out_dtype = problem.dtype;
  chunk.dlogits_row_stride = chunks.row_stride;
  if (problem.dloss && problem.reduction == Reduction::none) chunk.dloss = Upstream::row;
  return chunk;
}

/// The kernels and products of chunks of one size.
struct Chunk {
  Plan cross_entropy;
  std::unique_ptr<PreparedMatmul> logits, dhidden, dweight;
};

Chunk prepare_chunk(Engine& engine, MatmulLibrary& matmul, const LinearCrossEntropyProblem& problem,
                    const LinearChunks& chunks, std::int64_t rows, const PrepareOptions& options) {
  Chunk chunk{engine.prepare(chunk_problem(problem, chunks, rows), options), {}, {}, {}};
  const std::int64_t hidden_bytes = chunks.chunk_tokens * problem.hidden_size * size_of(problem.dtype);
  MatmulProblem product;
  product.dtype = problem.dtype;
  // A chunk starts where the previous one ends, so its alignment depends on the size of a chunk.
  while (chunks.chunks > 1 && hidden_bytes % product.alignment != 0) product.alignment /= 2;

  product.m = rows;
  product.n = problem.vocab_size;
  product.k = product.a_row_stride = product.b_row_stride = problem.hidden_size;
  product.transpose_b = true;
  product.c_row_stride = chunks.row_stride;
  product.out_dtype = problem.f32_logits ? DType::f32 : problem.dtype;
  chunk.logits = matmul.prepare(product);

  if (problem.dhidden) {
    product.n = product.b_row_stride = product.c_row_stride = problem.hidden_size;
    product.k = problem.vocab_size;
    product.transpose_b = false;
    product.a_row_stride = chunks.row_stride;
    product.out_dtype = problem.dtype;
    chunk.dhidden = matmul.prepare(product);
  }
  if (problem.dweight) {
    product.m = problem.vocab_size;
    product.n = product.b_row_stride = product.c_row_stride = problem.hidden_size;
    product.k = rows;
    product.transpose_a = true;
    product.transpose_b = false;
    product.a_row_stride = chunks.row_stride;
    product.out_dtype = problem.f32_dweight ? DType::f32 : problem.dtype;
    chunk.dweight = matmul.prepare(product);
  }
  return chunk;
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

std::optional<Plan> prepare_reduce(Engine& engine, const LinearCrossEntropyProblem& problem) {
  if (problem.reduction == Reduction::none) return {};
  const cross_entropy::ReduceProblem reduce{
      .rows = problem.tokens, .z_losses = problem.z_loss > 0, .divisor = problem.reduction == Reduction::mean};
  return engine.prepare(reduce, {.mode = Mode::off});
}

/// One array argument of launch().
/// An array of a launch, from the description.
struct Given {
  ArrayFacts facts;
  const void* address = nullptr;

  std::int64_t bytes() const noexcept {
    std::int64_t elements = 1;
    for (const Extent& extent : facts.shape) elements *= extent.value;
    return elements * size_of(facts.dtype);
  }
  std::int64_t alignment() const noexcept { return facts.aligned_to != 0 ? facts.aligned_to : size_of(facts.dtype); }
  bool written() const noexcept { return facts.role != Role::input; }
};

/// Collects the arrays of a launch without allocating memory.
struct ArrayList {
  std::array<Given, 16> arrays{};
  std::size_t count = 0;

  static void field(std::string_view, const auto&, const FieldFacts&) noexcept {}
  static void option(std::string_view, const auto&, const FieldFacts&) noexcept {}
  void array(const void* address, const ArrayFacts& facts) { arrays.at(count++) = {facts, address}; }
};

void check(std::span<const Given> arrays) {
  const auto begin = [](const Given& array) { return reinterpret_cast<std::uintptr_t>(array.address); };
  const auto end = [&](const Given& array) { return begin(array) + static_cast<std::uintptr_t>(array.bytes()); };
  for (const Given& array : arrays)
    if (!array.facts.present && array.address != nullptr)
      throw Error(ErrorCode::invalid_argument, "array '", array.facts.name,
                  "' is not null, but the problem was prepared without it; expected nullptr");
  for (const Given& array : arrays) {
    if (array.address == nullptr) {
      if (array.facts.present && !array.facts.optional && array.bytes() > 0)
        throw Error(ErrorCode::invalid_argument, "array '", array.facts.name, "' is a null pointer; expected ",
                    array.bytes(), " bytes of device memory");
      continue;
    }
    if (begin(array) % static_cast<std::uintptr_t>(array.alignment()) != 0)
      throw Error(ErrorCode::invalid_argument, "array '", array.facts.name, "' is at ", array.address,
                  "; expected an address that is a multiple of ", array.alignment(), " bytes");
    for (const Given& other : arrays) {
      if (!array.written() || &other == &array || other.address == nullptr || array.bytes() == 0 || other.bytes() == 0)
        continue;
      if (end(array) <= begin(other) || end(other) <= begin(array)) continue;
      throw Error(ErrorCode::invalid_argument, "arrays '", array.facts.name, "' (", array.address, ", ", array.bytes(),
                  " bytes) and '", other.facts.name, "' (", other.address, ", ", other.bytes(),
                  " bytes) overlap; expected disjoint arrays");
    }
  }
}

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
  Chunk whole;
  std::optional<Chunk> tail;
  std::optional<Plan> divisor, reduce;
  float* constants = nullptr;  ///< 0 and 1 in device memory, factors of the matrix products
  std::unique_ptr<Workspaces> workspaces;

  State(Engine& engine, const LinearCrossEntropyProblem& given, const PrepareOptions& options);
  ~State() {
    if (constants != nullptr) device->release(constants);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  bool has_gradient() const noexcept { return problem.dhidden || problem.dweight; }
  void check_arrays(const LinearCrossEntropyArrays& arrays) const;
  void launch(const LinearCrossEntropyArrays& arrays, std::byte* workspace, Stream stream) const;
  void launch_chunk(const Chunk& chunk, std::int64_t first, const LinearCrossEntropyArrays& arrays, const float* scale,
                    std::byte* workspace, Stream stream) const;
};

LinearCrossEntropy::State::State(Engine& engine, const LinearCrossEntropyProblem& given, const PrepareOptions& options)
    : device(engine.parts().device),
      matmul((check(given), engine.parts().matmul())),
      problem(given),
      chunks(divide(given, matmul->workspace_bytes())),
      whole(prepare_chunk(engine, *matmul, given, chunks, chunks.chunk_tokens, options)),
      divisor(prepare_divisor(engine, given)),
      reduce(prepare_reduce(engine, given)) {
  // Use the same configuration for the tail, which is not worth tuning separately.
  if (chunks.tail_tokens > 0 && chunks.chunks > 1)
    tail = prepare_chunk(engine, *matmul, given, chunks, chunks.tail_tokens,
                         {.config = whole.cross_entropy.config(), .mode = options.mode});
  if (!problem.caller_workspace) workspaces = std::make_unique<Workspaces>(*device, chunks.bytes, 1);
  constexpr std::array<float, 2> values{0.0f, 1.0f};
  constants = static_cast<float*>(device->allocate(sizeof values));
  device->copy_to_device(constants, values.data(), sizeof values);
}

void LinearCrossEntropy::State::check_arrays(const LinearCrossEntropyArrays& arrays) const {
  ArrayList list;
  describe_linear_arrays(problem, arrays, static_cast<std::int64_t>(chunks.bytes), list);
  check(std::span(list.arrays).first(list.count));
}

void LinearCrossEntropy::State::launch_chunk(const Chunk& chunk, std::int64_t first, const LinearCrossEntropyArrays& arrays,
                                             const float* scale, std::byte* workspace, Stream stream) const {
  const float *const zero = constants, *const one = constants + 1;
  const bool each = problem.reduction == Reduction::none;
  const auto* const hidden = part(arrays.hidden, first * problem.hidden_size, size_of(problem.dtype));
  const auto floats_at = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace + offset); };
  void *const logits = workspace + chunks.logits, *const dlogits = workspace + chunks.dlogits;
  void* const scratch = workspace + chunks.matmul;

  chunk.logits->enqueue({hidden, arrays.weight, logits, one, zero, scratch}, stream);

  const float* const z_losses = each && arrays.z_loss != nullptr ? arrays.z_loss : floats_at(chunks.z_losses);
  Addresses<12> list;
  list.add(logits);
  list.add(part(arrays.targets, first, size_of(problem.target_dtype)));
  list.add_if(problem.class_weight, has_scaled_weight(problem) ? floats_at(chunks.scaled_weight) : arrays.class_weight);
  list.add_if(problem.dloss && each, part(arrays.dloss, first, 4));
  list.add((each ? arrays.loss : floats_at(chunks.losses)) + first);
  list.add(arrays.lse != nullptr ? arrays.lse + first : floats_at(chunks.lse));
  list.add_if(problem.z_loss > 0, z_losses + first);
  list.add_if(problem.nll, part(arrays.nll, first, 4));
  list.add_if(problem.argmax, part(arrays.argmax, first, size_of(problem.target_dtype)));
  list.add_if(has_gradient(), dlogits);
  chunk.cross_entropy.launch(list.span(), stream);

  if (problem.dhidden)
    chunk.dhidden->enqueue({dlogits, arrays.weight,
                            part(arrays.dhidden, first * problem.hidden_size, size_of(problem.dtype)), scale, zero, scratch},
                           stream);
  if (problem.dweight)
    chunk.dweight->enqueue({dlogits, hidden, arrays.dweight, scale, first == 0 ? zero : one, scratch}, stream);
}

void LinearCrossEntropy::State::launch(const LinearCrossEntropyArrays& arrays, std::byte* workspace, Stream stream) const {
  const auto floats_at = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace + offset); };
  const float* scale = constants + 1;
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

  for (std::int64_t i = 0; i < chunks.chunks; ++i)
    launch_chunk(tail && i == chunks.chunks - 1 ? *tail : whole, i * chunks.chunk_tokens, arrays, scale, workspace, stream);
  if (problem.dweight && problem.tokens == 0)
    device->fill_async(arrays.dweight, 0,
                       static_cast<std::size_t>(problem.vocab_size * problem.hidden_size *
                                                size_of(problem.f32_dweight ? DType::f32 : problem.dtype)),
                       stream);

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
  state_->check_arrays(arrays);
  void* const workspace = state_->workspaces != nullptr ? state_->workspaces->of(stream) : arrays.workspace;
  state_->launch(arrays, static_cast<std::byte*>(workspace), stream);
}

std::size_t LinearCrossEntropy::workspace_bytes() const noexcept { return state_->chunks.bytes; }
std::int64_t LinearCrossEntropy::chunk_tokens() const noexcept { return state_->chunks.chunk_tokens; }
std::int64_t LinearCrossEntropy::chunks() const noexcept { return state_->chunks.chunks; }
const LinearCrossEntropyProblem& LinearCrossEntropy::problem() const noexcept { return state_->problem; }
const Plan& LinearCrossEntropy::cross_entropy() const noexcept { return state_->whole.cross_entropy; }

}  // namespace tunesmith
