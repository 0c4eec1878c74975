// Engine's one-shot calls of the softmax family: a plan looked up by value, without lock or allocation, and launched.

#include "api/dispatch/one_shot.h"

namespace tunesmith {
namespace {

bool is_plain(const SoftmaxOptions& options) noexcept {
  return options.scale == 1 && !options.causal && !options.valid_cols && !options.safe &&
         options.mask.kind == SoftmaxMask::Kind::none;
}

/// Forgetting to switch an option on must not pass for an answer.
void refuse_unused(const SoftmaxOptions& options, const SoftmaxArrays& arrays) {
  if (arrays.mask != nullptr && options.mask.kind == SoftmaxMask::Kind::none) [[unlikely]]
    throw Error(ErrorCode::invalid_argument,
                "mask is given, but options.mask.kind is none; expected add or keep, or no mask");
  if (arrays.valid_cols != nullptr && !options.valid_cols) [[unlikely]]
    throw Error(ErrorCode::invalid_argument,
                "valid_cols is given, but options.valid_cols is false; expected true, or no valid_cols");
}

/// What the key ignores takes its default, so that equal keys are equal problems.
void settle(SoftmaxOptions& options, DType dtype, const SoftmaxArrays& arrays, std::int64_t rows) {
  if (options.mask.kind == SoftmaxMask::Kind::none) {
    options.mask = {};
  } else {
    options.mask.alignment = alignment_of("mask", arrays.mask, mask_dtype(options.mask, dtype), rows);
  }
  if (options.valid_cols)
    alignment_of("valid_cols", arrays.valid_cols, DType::i32, rows);
  else
    options.valid_cols_group = 1;
}

void add_extras(Addresses<5>& addresses, const SoftmaxOptions& options, const SoftmaxArrays& arrays) noexcept {
  addresses.add_if(options.mask.kind != SoftmaxMask::Kind::none, arrays.mask);
  addresses.add_if(options.valid_cols, arrays.valid_cols);
}

struct ForwardCall {
  using Key = SoftmaxKey;
  const void* x;
  void* y;
  const SoftmaxProblem& problem;
  bool logarithm;

  Key key() const noexcept { return {x, y, problem, logarithm}; }
  SoftmaxOptionsKey key(const SoftmaxArrays& arrays) const noexcept { return {x, y, problem, logarithm, arrays}; }
  Addresses<5> addresses() const noexcept { return Addresses<5>(x, y); }
  static auto& table(PlanTable& plans) noexcept { return plans.softmax; }

  /// The first call for a key: names what is wrong with the addresses in the caller's terms, then prepares.
  Plan prepare(Engine& engine, const SoftmaxArrays& arrays, Stream stream) const {
    SoftmaxProblem known = problem;
    known.logarithm = logarithm;
    known.x_alignment = alignment_of("x", x, known.dtype, known.rows);
    known.y_alignment = alignment_of("y", y, known.output(), known.rows);
    known.in_place = x == y && known.rows > 0;
    settle(known.options, known.dtype, arrays, known.rows);
    return engine.prepare(known, {}, stream);
  }
};

struct BackwardCall {
  using Key = SoftmaxBackwardKey;
  const void* dy;
  const void* y;
  void* dx;
  const SoftmaxBackwardProblem& problem;
  bool logarithm;

  Key key() const noexcept { return {dy, y, dx, problem, logarithm}; }
  SoftmaxOptionsKey key(const SoftmaxArrays& arrays) const noexcept { return {dy, y, dx, problem, logarithm, arrays}; }
  Addresses<5> addresses() const noexcept { return Addresses<5>(dy, y, dx); }
  static auto& table(PlanTable& plans) noexcept { return plans.softmax_backward; }

  Plan prepare(Engine& engine, const SoftmaxArrays& arrays, Stream stream) const {
    SoftmaxBackwardProblem known = problem;
    known.logarithm = logarithm;
    known.dy_alignment = alignment_of("dy", dy, known.dtype, known.rows);
    known.y_alignment = alignment_of("y", y, known.dtype, known.rows);
    known.dx_alignment = alignment_of("dx", dx, known.output(), known.rows);
    known.in_place = dx == dy && known.rows > 0;
    settle(known.options, known.dtype, arrays, known.rows);
    return engine.prepare(known, {}, stream);
  }
};

template <typename Table, typename Key, typename Call>
void launch(Engine& engine, Table& table, const Key& key, const Call& call, const SoftmaxArrays& arrays,
            const Addresses<5>& addresses, Stream stream) {
  const Executable* executable = table.find(key);
  if (executable == nullptr) [[unlikely]] {
    executable = call.prepare(engine, arrays, stream).state().executable.get();
    table.insert(key, *executable);  // the plan table keeps it alive
  }
  executable->enqueue(addresses.span(), stream);
}

template <typename Call>
[[gnu::noinline]] void launch_with_options(Engine& engine, const Call& call, const SoftmaxArrays& arrays, Stream stream) {
  Addresses<5> addresses = call.addresses();
  add_extras(addresses, call.problem.options, arrays);
  launch(engine, engine.parts().plans->softmax_options, call.key(arrays), call, arrays, addresses, stream);
}

template <typename Call>
void dispatch(Engine& engine, const Call& call, const SoftmaxArrays& arrays, Stream stream) {
  refuse_unused(call.problem.options, arrays);
  if (!is_plain(call.problem.options)) [[unlikely]]
    return launch_with_options(engine, call, arrays, stream);
  launch(engine, Call::table(*engine.parts().plans), call.key(), call, arrays, call.addresses(), stream);
}

}  // namespace

Plan Engine::prepare(const SoftmaxProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}

Plan Engine::prepare(const SoftmaxBackwardProblem& problem, const PrepareOptions& options, Stream stream) {
  return prepare(to_problem(problem), options, stream);
}

void Engine::softmax(const void* x, void* y, const SoftmaxProblem& problem, const SoftmaxArrays& arrays, Stream stream) {
  dispatch(*this, ForwardCall{x, y, problem, false}, arrays, stream);
}
void Engine::softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream) {
  dispatch(*this, ForwardCall{x, y, problem, false}, {}, stream);
}

void Engine::log_softmax(const void* x, void* y, const SoftmaxProblem& problem, const SoftmaxArrays& arrays, Stream stream) {
  dispatch(*this, ForwardCall{x, y, problem, true}, arrays, stream);
}
void Engine::log_softmax(const void* x, void* y, const SoftmaxProblem& problem, Stream stream) {
  dispatch(*this, ForwardCall{x, y, problem, true}, {}, stream);
}

void Engine::softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                              const SoftmaxArrays& arrays, Stream stream) {
  dispatch(*this, BackwardCall{dy, y, dx, problem, false}, arrays, stream);
}
void Engine::softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                              Stream stream) {
  dispatch(*this, BackwardCall{dy, y, dx, problem, false}, {}, stream);
}

void Engine::log_softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                                  const SoftmaxArrays& arrays, Stream stream) {
  dispatch(*this, BackwardCall{dy, y, dx, problem, true}, arrays, stream);
}
void Engine::log_softmax_backward(const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                                  Stream stream) {
  dispatch(*this, BackwardCall{dy, y, dx, problem, true}, {}, stream);
}

}  // namespace tunesmith
