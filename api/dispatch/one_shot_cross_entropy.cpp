// Engine's one-shot calls of the cross-entropy family: a plan looked up by value, without lock or allocation, and launched.

#include "api/dispatch/bad_targets.h"
#include "api/dispatch/one_shot.h"
#include "templates/half.h"
#include "tuner/device_memory.h"

namespace tunesmith {
namespace {

using CallAddresses = Addresses<12>;

void refuse_unused_z_loss(double factor, const void* z_loss) {
  if (factor == 0 && z_loss != nullptr) [[unlikely]]
    throw Error(ErrorCode::invalid_argument,
                "z_loss is given, but problem.z_loss is 0; expected a factor above 0, or no array");
}

std::int64_t losses_of(Reduction reduction, std::int64_t rows) noexcept { return reduction == Reduction::none ? rows : 1; }

/// dloss where the problem leaves it to the reduction.
Upstream upstream_of(Reduction reduction, Upstream said) noexcept {
  if (said != Upstream::none) return said;
  return reduction == Reduction::none ? Upstream::row : Upstream::scalar;
}

void check_losses(const CrossEntropyCombineProblem& problem, const CrossEntropyCombineArrays& arrays) {
  const std::int64_t rows = problem.rows, losses = losses_of(problem.reduction, rows);
  alignment_of("targets", arrays.targets, problem.target_dtype, rows);
  alignment_of("loss", arrays.loss, DType::f32, losses);
  alignment_of("lse", arrays.lse, DType::f32, rows);
  if (problem.z_loss != 0) alignment_of("z_loss", arrays.z_loss, DType::f32, losses);
  if (problem.nll) alignment_of("nll", arrays.nll, DType::f32, rows);
  if (problem.predicted) alignment_of("predicted", arrays.predicted, problem.target_dtype, rows);
  if (problem.correct) alignment_of("correct", arrays.correct, DType::i64, 1);
  if (problem.check_targets) alignment_of("bad_targets", arrays.bad_targets, DType::i64, 2);
}

/// Loss and what comes with it, from targets on, as both operations that have one take it.
template <typename Problem, typename Arrays>
void add_losses(CallAddresses& addresses, const Problem& problem, const Arrays& arrays) noexcept {
  addresses.add(arrays.loss);
  addresses.add(arrays.lse);
  addresses.add_if(problem.z_loss != 0, arrays.z_loss);
  addresses.add_if(problem.nll, arrays.nll);
  addresses.add_if(problem.predicted, arrays.predicted);
  addresses.add_if(problem.correct, arrays.correct);
  addresses.add_if(problem.check_targets, arrays.bad_targets);
}

template <typename Problem, typename Arrays>
void settle_losses(Problem& problem, const Arrays& arrays) {
  refuse_unused_z_loss(problem.z_loss, arrays.z_loss);
  problem.nll = is_given("nll", arrays.nll, problem.nll);
  problem.predicted = is_given("predicted", arrays.predicted, problem.predicted);
  problem.correct = is_given("correct", arrays.correct, problem.correct);
  problem.check_targets = arrays.bad_targets != nullptr;
}

// ---- A call of each operation: its problem, a check for the first time, its arrays -------------------------------------

struct LossCall {
  const void* logits;
  const CrossEntropyArrays& arrays;
  CrossEntropyProblem problem;

  LossCall(const void* address, const CrossEntropyArrays& given, const CrossEntropyProblem& asked)
      : logits(address), arrays(given), problem(asked) {
    settle_losses(problem, arrays);
    problem.weight = is_given("weight", arrays.weight, problem.weight);
    if (is_given("dloss", arrays.dloss, problem.dloss != Upstream::none))
      problem.dloss = upstream_of(problem.reduction, problem.dloss);
    problem.logits_alignment = promise_of(logits, problem.dtype, problem.rows);
    if (problem.gradient != Gradient::none && arrays.dlogits == nullptr && problem.rows > 0) [[unlikely]]
      throw Error(ErrorCode::invalid_argument,
                  "dlogits is a null pointer, but problem.gradient is set; expected device memory, or no gradient");
    if (arrays.dlogits != nullptr || problem.gradient != Gradient::none) {
      const bool in_place = arrays.dlogits == logits && problem.rows > 0;
      problem.gradient = in_place ? Gradient::in_place : Gradient::separate;
      problem.dlogits_alignment = promise_of(arrays.dlogits, problem.out_dtype, problem.rows);
    } else {  // nothing else about dlogits makes a difference
      problem.out_dtype = problem.dtype;
      problem.dlogits_row_stride = 0;
      problem.dlogits_alignment = 16;
    }
  }

  void check() const {
    const std::int64_t rows = problem.rows;
    alignment_of("logits", logits, problem.dtype, rows);
    CrossEntropyCombineProblem losses;
    losses.rows = rows;
    losses.target_dtype = problem.target_dtype;
    losses.reduction = problem.reduction;
    losses.z_loss = problem.z_loss;
    losses.nll = problem.nll;
    losses.predicted = problem.predicted;
    losses.correct = problem.correct;
    losses.check_targets = problem.check_targets;
    check_losses(losses, {arrays.targets, arrays.loss, arrays.lse, arrays.z_loss, arrays.nll, arrays.predicted,
                          arrays.correct, arrays.bad_targets});
    if (problem.weight) alignment_of("weight", arrays.weight, DType::f32, 1);
    if (problem.dloss != Upstream::none) alignment_of("dloss", arrays.dloss, DType::f32, 1);
    if (problem.gradient != Gradient::none) alignment_of("dlogits", arrays.dlogits, problem.out_dtype, rows);
  }

  CallAddresses addresses() const noexcept {
    CallAddresses all(logits, arrays.targets);
    all.add_if(problem.weight, arrays.weight);
    all.add_if(problem.dloss != Upstream::none, arrays.dloss);
    add_losses(all, problem, arrays);
    all.add_if(problem.gradient != Gradient::none, arrays.dlogits);
    return all;
  }
};

struct BackwardCall {
  const void* logits;
  const CrossEntropyBackwardArrays& arrays;
  CrossEntropyBackwardProblem problem;

  BackwardCall(const void* address, const CrossEntropyBackwardArrays& given, const CrossEntropyBackwardProblem& asked)
      : logits(address), arrays(given), problem(asked) {
    problem.nll = is_given("nll", arrays.nll, problem.nll);
    problem.weight = is_given("weight", arrays.weight, problem.weight);
    problem.dloss = upstream_of(problem.reduction, problem.dloss);
    problem.in_place = arrays.dlogits == logits && problem.rows > 0;
    problem.logits_alignment = promise_of(logits, problem.dtype, problem.rows);
    problem.dlogits_alignment = promise_of(arrays.dlogits, problem.out_dtype, problem.rows);
  }

  void check() const {
    const std::int64_t rows = problem.rows;
    alignment_of("logits", logits, problem.dtype, rows);
    alignment_of("targets", arrays.targets, problem.target_dtype, rows);
    alignment_of("lse", arrays.lse, DType::f32, rows);
    alignment_of("dloss", arrays.dloss, DType::f32, problem.dloss == Upstream::row ? rows : 1);
    if (problem.nll) alignment_of("nll", arrays.nll, DType::f32, rows);
    if (problem.weight) alignment_of("weight", arrays.weight, DType::f32, 1);
    alignment_of("dlogits", arrays.dlogits, problem.out_dtype, rows);
  }

  CallAddresses addresses() const noexcept {
    CallAddresses all(logits, arrays.targets, arrays.lse, arrays.dloss);
    all.add_if(problem.nll, arrays.nll);
    all.add_if(problem.weight, arrays.weight);
    all.add(arrays.dlogits);
    return all;
  }
};

struct ShardCall {
  const void* logits;
  const CrossEntropyShardArrays& arrays;
  CrossEntropyShardProblem problem;

  ShardCall(const void* address, const CrossEntropyShardArrays& given, const CrossEntropyShardProblem& asked)
      : logits(address), arrays(given), problem(asked) {
    problem.weight = is_given("weight", arrays.weight, problem.weight);
    problem.logits_alignment = promise_of(logits, problem.dtype, problem.rows);
  }

  void check() const {
    alignment_of("logits", logits, problem.dtype, problem.rows);
    alignment_of("targets", arrays.targets, problem.target_dtype, problem.rows);
    if (problem.weight) alignment_of("weight", arrays.weight, DType::f32, 1);
    alignment_of("parts", arrays.parts, DType::f32, problem.rows);
  }

  CallAddresses addresses() const noexcept {
    CallAddresses all(logits, arrays.targets);
    all.add_if(problem.weight, arrays.weight);
    all.add(arrays.parts);
    return all;
  }
};

struct CombineCall {
  const void* parts;
  const CrossEntropyCombineArrays& arrays;
  CrossEntropyCombineProblem problem;

  CombineCall(const void* address, const CrossEntropyCombineArrays& given, const CrossEntropyCombineProblem& asked)
      : parts(address), arrays(given), problem(asked) {
    settle_losses(problem, arrays);
  }

  void check() const {
    alignment_of("parts", parts, DType::f32, problem.rows);
    check_losses(problem, arrays);
  }

  CallAddresses addresses() const noexcept {
    CallAddresses all(parts, arrays.targets);
    add_losses(all, problem, arrays);
    return all;
  }
};

template <typename Call>
void launch(Engine& engine, const Call& call, Stream stream) {
  launch_known(engine, engine.parts().plans->cross_entropy, call, stream);
}

// ---- check_targets -----------------------------------------------------------------------------------------------------

std::int64_t target_at(Device& device, const void* targets, DType dtype, std::int64_t row) {
  std::byte target[sizeof(std::int64_t)];
  const std::int64_t bytes = size_of(dtype);
  device.copy_to_host(target, static_cast<const std::byte*>(targets) + row * bytes, static_cast<std::size_t>(bytes));
  return read_integer(dtype, target, 0);
}

/// Launches, waits, and throws for targets that are no class.
template <typename Call, typename Arrays, typename Problem>
[[gnu::noinline]] void launch_checked(Engine& engine, const void* first, Arrays arrays, const Problem& problem,
                                      std::int64_t classes, Stream stream) {
  Device& device = *engine.parts().device;
  if (device.is_capturing(stream))
    throw Error(ErrorCode::capturing,
                "check_targets is set and would wait for the stream, which is capturing; leave it out and give bad_targets");
  const DeviceMemory scratch(device, 2 * sizeof(std::int64_t));
  if (arrays.bad_targets == nullptr) arrays.bad_targets = scratch.get();
  launch(engine, Call(first, arrays, problem), stream);
  device.synchronize(stream);
  std::int64_t bad[2] = {};  // how many, and the first
  device.copy_to_host(bad, arrays.bad_targets, sizeof bad);
  if (bad[0] == 0) return;
  const std::int64_t target = target_at(device, arrays.targets, problem.target_dtype, bad[1]);
  throw Error(ErrorCode::invalid_argument, bad_target_text(bad[1], target, classes, problem.ignore_index, bad[0]));
}

}  // namespace

Plan Engine::prepare(const CrossEntropyProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}
Plan Engine::prepare(const CrossEntropyBackwardProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}
Plan Engine::prepare(const CrossEntropyShardProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}
Plan Engine::prepare(const CrossEntropyCombineProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}

void Engine::cross_entropy(const void* logits, const CrossEntropyArrays& arrays, const CrossEntropyProblem& problem,
                           Stream stream) {
  if (problem.check_targets) [[unlikely]]
    return launch_checked<LossCall>(*this, logits, arrays, problem, problem.cols, stream);
  launch(*this, LossCall(logits, arrays, problem), stream);
}

void Engine::cross_entropy_backward(const void* logits, const CrossEntropyBackwardArrays& arrays,
                                    const CrossEntropyBackwardProblem& problem, Stream stream) {
  launch(*this, BackwardCall(logits, arrays, problem), stream);
}

void Engine::cross_entropy_shard(const void* logits, const CrossEntropyShardArrays& arrays,
                                 const CrossEntropyShardProblem& problem, Stream stream) {
  launch(*this, ShardCall(logits, arrays, problem), stream);
}

void Engine::cross_entropy_combine(const void* parts, const CrossEntropyCombineArrays& arrays,
                                   const CrossEntropyCombineProblem& problem, Stream stream) {
  if (problem.check_targets) [[unlikely]]
    return launch_checked<CombineCall>(*this, parts, arrays, problem, problem.vocab_size, stream);
  launch(*this, CombineCall(parts, arrays, problem), stream);
}

}  // namespace tunesmith
