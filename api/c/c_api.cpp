// The C API: every function catches what its C++ twin throws and keeps the message for the calling thread.

#include "tunesmith/c_api.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "api/c/calls.h"
#include "api/c/cross_entropy.h"
#include "api/c/options.h"
#include "api/engine/parts.h"
#include "api/engine/plan_state.h"

using namespace tunesmith;

struct tunesmith_plan {
  Plan plan;
  std::string problem, config, resources;
};

namespace {

struct LastError {
  std::string message, log, source_path;
};
thread_local LastError last_error;

// The C numbers follow ErrorCode, one further because 0 is success.
constexpr tunesmith_status status_of(ErrorCode code) { return static_cast<tunesmith_status>(static_cast<int>(code) + 1); }
static_assert(status_of(ErrorCode::invalid_argument) == TUNESMITH_INVALID_ARGUMENT);
static_assert(status_of(ErrorCode::compile_failed) == TUNESMITH_COMPILE_FAILED);
static_assert(status_of(ErrorCode::capturing) == TUNESMITH_CAPTURING);
static_assert(status_of(ErrorCode::cache_failed) == TUNESMITH_CACHE_FAILED);
static_assert(static_cast<int>(DType::f16) == TUNESMITH_F16 && static_cast<int>(DType::bf16) == TUNESMITH_BF16);
static_assert(static_cast<int>(DType::u8) == TUNESMITH_U8);
static_assert(static_cast<int>(DType::i32) == TUNESMITH_I32 && static_cast<int>(DType::i64) == TUNESMITH_I64);
static_assert(static_cast<int>(Mode::replay) == TUNESMITH_MODE_REPLAY && static_cast<int>(Mode::off) == TUNESMITH_MODE_OFF);

tunesmith_status fail(tunesmith_status status, const char* message) noexcept {
  last_error = {};
  try {
    last_error.message = message;
  } catch (const std::bad_alloc&) {  // the status alone has to do
  }
  return status;
}

SoftmaxProblem forward_problem(int64_t rows, int64_t cols, int64_t x_row_stride, int64_t y_row_stride, int dtype,
                               int out_dtype) {
  SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, float_dtype_from_c(dtype, "dtype"));
  problem.out_dtype = float_dtype_from_c(out_dtype, "out_dtype");
  if (x_row_stride != 0) problem.x_row_stride = x_row_stride;
  if (y_row_stride != 0) problem.y_row_stride = y_row_stride;
  return problem;
}

SoftmaxBackwardProblem backward_problem(int64_t rows, int64_t cols, int64_t dy_row_stride, int64_t y_row_stride,
                                        int64_t dx_row_stride, int dtype, int out_dtype) {
  SoftmaxBackwardProblem problem = SoftmaxBackwardProblem::contiguous(rows, cols, float_dtype_from_c(dtype, "dtype"));
  problem.out_dtype = float_dtype_from_c(out_dtype, "out_dtype");
  if (dy_row_stride != 0) problem.dy_row_stride = dy_row_stride;
  if (y_row_stride != 0) problem.y_row_stride = y_row_stride;
  if (dx_row_stride != 0) problem.dx_row_stride = dx_row_stride;
  return problem;
}

std::span<void* const> arrays_of(void* const* arrays, std::size_t count) {
  if (arrays == nullptr && count > 0)
    throw Error(ErrorCode::invalid_argument, "arrays is NULL; expected ", count, " addresses");
  return {arrays, count};
}

void set_field(tunesmith_problem* problem, const char* field, Value value) {
  const std::string_view name = &given(field, "field");
  if (name.empty()) throw Error(ErrorCode::invalid_argument, "field is empty; expected the name of a problem's field");
  given(problem, "problem").problem.fields.set(name, std::move(value));
}

/// Both ends of a copy of `bytes` bytes, at least one.
void require_memory(const void* device, const void* host, size_t bytes) {
  if (device != nullptr && host != nullptr) return;
  throw Error(ErrorCode::invalid_argument, device == nullptr ? "device" : "host", " is NULL; expected ", bytes, " bytes");
}

}  // namespace

tunesmith_status tunesmith::status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    const tunesmith_status status = fail(status_of(error.code()), error.what());
    try {
      last_error.log = error.log();
      last_error.source_path = error.source_path();
    } catch (const std::bad_alloc&) {
    }
    return status;
  } catch (const std::bad_alloc&) {
    return fail(TUNESMITH_OUT_OF_MEMORY, "host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(TUNESMITH_INTERNAL, error.what());
  } catch (...) {
    return fail(TUNESMITH_INTERNAL, "an exception of unknown type");
  }
}

const char* tunesmith_version(void) { return TUNESMITH_VERSION; }

const char* tunesmith_status_name(tunesmith_status status) {
  if (status == TUNESMITH_OK) return "ok";
  if (status == TUNESMITH_INTERNAL) return "internal";
  return name(static_cast<ErrorCode>(static_cast<int>(status) - 1));
}

const char* tunesmith_last_error(void) { return last_error.message.c_str(); }
const char* tunesmith_last_error_log(void) { return last_error.log.c_str(); }
const char* tunesmith_last_error_source_path(void) { return last_error.source_path.c_str(); }

tunesmith_status tunesmith_engine_create(const tunesmith_options* options, tunesmith_engine** engine) {
  return guarded([&] { given(engine, "engine") = new tunesmith_engine{Engine(options_from_c(options))}; });
}

void tunesmith_engine_destroy(tunesmith_engine* engine) { delete engine; }

const char* tunesmith_engine_device(const tunesmith_engine* engine) {
  return engine == nullptr ? "" : engine->engine.device().name.c_str();
}

int tunesmith_engine_is_host(const tunesmith_engine* engine) {
  return engine != nullptr && engine->engine.device().kind == DeviceInfo::Kind::host ? 1 : 0;
}

tunesmith_status tunesmith_synchronize(tunesmith_engine* engine, tunesmith_stream stream) {
  return guarded([&] { given(engine, "engine").engine.synchronize(stream); });
}

tunesmith_status tunesmith_allocate(tunesmith_engine* engine, size_t bytes, void** memory) {
  return guarded([&] {
    void*& result = given(memory, "memory");
    result = given(engine, "engine").engine.parts().device->allocate(bytes);
  });
}

tunesmith_status tunesmith_release(tunesmith_engine* engine, void* memory) {
  return guarded([&] {
    Engine& owner = given(engine, "engine").engine;
    if (memory != nullptr) owner.parts().device->release(memory);
  });
}

tunesmith_status tunesmith_copy_to_device(tunesmith_engine* engine, void* device, const void* host, size_t bytes) {
  return guarded([&] {
    Engine& owner = given(engine, "engine").engine;
    if (bytes == 0) return;
    require_memory(device, host, bytes);
    owner.parts().device->copy_to_device(device, host, bytes);
  });
}

tunesmith_status tunesmith_copy_to_host(tunesmith_engine* engine, void* host, const void* device, size_t bytes) {
  return guarded([&] {
    Engine& owner = given(engine, "engine").engine;
    if (bytes == 0) return;
    require_memory(device, host, bytes);
    owner.parts().device->copy_to_host(host, device, bytes);
  });
}

tunesmith_status tunesmith_problem_create(const char* op, tunesmith_problem** problem) {
  return guarded([&] {
    const std::string op_name = &given(op, "op");
    (void)find_op(op_name);  // an unknown one is named here, where it was written
    given(problem, "problem") = new tunesmith_problem{{op_name, {}}};
  });
}

void tunesmith_problem_destroy(tunesmith_problem* problem) { delete problem; }

tunesmith_status tunesmith_problem_set_int(tunesmith_problem* problem, const char* field, int64_t value) {
  return guarded([&] { set_field(problem, field, std::int64_t{value}); });
}

tunesmith_status tunesmith_problem_set_real(tunesmith_problem* problem, const char* field, double value) {
  return guarded([&] { set_field(problem, field, value); });
}

tunesmith_status tunesmith_problem_set_word(tunesmith_problem* problem, const char* field, const char* word) {
  return guarded([&] { set_field(problem, field, std::string(&given(word, "word"))); });
}

tunesmith_status tunesmith_problem_elements(const tunesmith_problem* problem, const char* array, int64_t* elements) {
  return guarded([&] {
    const std::string name = &given(array, "array");
    int64_t& result = given(elements, "elements");
    const Problem& asked = given(problem, "problem").problem;
    const Op& op = find_op(asked.op);
    std::string names;
    for (const ArrayInfo& info : op.parse(asked)->arrays()) {
      if (info.name == name) {
        result = info.elements();
        return;
      }
      names += (names.empty() ? "" : ", ") + info.name;
    }
    throw Error(ErrorCode::invalid_argument, "the problem has no array '", name, "'; it has: ", names);
  });
}

tunesmith_status tunesmith_prepare(tunesmith_engine* engine, const tunesmith_problem* problem, const char* config, int mode,
                                   tunesmith_plan** plan) {
  return guarded([&] {
    PrepareOptions options;
    if (config != nullptr) options.config = {parse_fields(config, "config")};
    if (mode < TUNESMITH_MODE_OF_ENGINE || mode > TUNESMITH_MODE_OFF)
      throw Error(ErrorCode::invalid_argument, "mode is ", mode,
                  "; allowed: -1 (the engine's), 0 (tune), 1 (replay), 2 (off)");
    if (mode != TUNESMITH_MODE_OF_ENGINE) options.mode = static_cast<Mode>(mode);
    tunesmith_plan*& result = given(plan, "plan");
    Plan prepared = given(engine, "engine").engine.prepare(given(problem, "problem").problem, options);
    std::string problem_text = prepared.problem().text(), config_text = prepared.config().text();
    std::string resources = prepared.resources();
    result = new tunesmith_plan{std::move(prepared), std::move(problem_text), std::move(config_text), std::move(resources)};
  });
}

void tunesmith_plan_destroy(tunesmith_plan* plan) { delete plan; }

tunesmith_status tunesmith_plan_launch(const tunesmith_plan* plan, void* const* arrays, size_t count,
                                       tunesmith_stream stream) {
  return guarded([&] { given(plan, "plan").plan.launch(arrays_of(arrays, count), stream); });
}

tunesmith_status tunesmith_time_us(const tunesmith_plan* plan, void* const* arrays, size_t count, int repeats,
                                   int flush_cache, double* time_us) {
  return guarded([&] {
    const Plan& timed = given(plan, "plan").plan;
    const std::span<void* const> addresses = arrays_of(arrays, count);
    if (repeats < 1) throw Error(ErrorCode::invalid_argument, "repeats is ", repeats, "; expected at least 1");
    double* const result = &given(time_us, "time_us");
    const std::vector<std::function<void(Stream)>> works(static_cast<std::size_t>(repeats),
                                                         [&](Stream stream) { timed.launch(addresses, stream); });
    const std::vector<double> times = timed.state().device->time_us(works, flush_cache != 0);
    std::copy_n(times.begin(), std::min(times.size(), works.size()), result);
  });
}

const char* tunesmith_plan_problem(const tunesmith_plan* plan) { return plan == nullptr ? "" : plan->problem.c_str(); }
const char* tunesmith_plan_config(const tunesmith_plan* plan) { return plan == nullptr ? "" : plan->config.c_str(); }
const char* tunesmith_plan_origin(const tunesmith_plan* plan) {
  return plan == nullptr ? "" : name(plan->plan.origin()).data();
}
const char* tunesmith_plan_source(const tunesmith_plan* plan) try {
  return plan == nullptr ? "" : plan->plan.source().c_str();
} catch (const std::exception&) {  // no memory for it
  return "";
}
const char* tunesmith_plan_resources(const tunesmith_plan* plan) { return plan == nullptr ? "" : plan->resources.c_str(); }
int tunesmith_plan_compiled(const tunesmith_plan* plan) { return plan != nullptr && plan->plan.compiled() ? 1 : 0; }
double tunesmith_plan_compile_ms(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->plan.compile_ms(); }
double tunesmith_plan_tune_s(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->plan.tune_s(); }
int tunesmith_plan_occupancy(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->plan.occupancy(); }
double tunesmith_plan_bytes(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->plan.bytes(); }
double tunesmith_plan_flops(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->plan.flops(); }

tunesmith_status tunesmith_softmax(tunesmith_engine* engine, const void* x, void* y, int64_t rows, int64_t cols,
                                   int64_t x_row_stride, int64_t y_row_stride, int dtype, int out_dtype,
                                   tunesmith_stream stream) {
  return guarded([&] {
    const SoftmaxProblem problem = forward_problem(rows, cols, x_row_stride, y_row_stride, dtype, out_dtype);
    given(engine, "engine").engine.softmax(x, y, problem, stream);
  });
}

tunesmith_status tunesmith_log_softmax(tunesmith_engine* engine, const void* x, void* y, int64_t rows, int64_t cols,
                                       int64_t x_row_stride, int64_t y_row_stride, int dtype, int out_dtype,
                                       tunesmith_stream stream) {
  return guarded([&] {
    const SoftmaxProblem problem = forward_problem(rows, cols, x_row_stride, y_row_stride, dtype, out_dtype);
    given(engine, "engine").engine.log_softmax(x, y, problem, stream);
  });
}

tunesmith_status tunesmith_softmax_backward(tunesmith_engine* engine, const void* dy, const void* y, void* dx, int64_t rows,
                                            int64_t cols, int64_t dy_row_stride, int64_t y_row_stride, int64_t dx_row_stride,
                                            int dtype, int out_dtype, tunesmith_stream stream) {
  return guarded([&] {
    const SoftmaxBackwardProblem problem =
        backward_problem(rows, cols, dy_row_stride, y_row_stride, dx_row_stride, dtype, out_dtype);
    given(engine, "engine").engine.run(problem, {.dy = dy, .y = y, .dx = dx}, stream);
  });
}

tunesmith_status tunesmith_log_softmax_backward(tunesmith_engine* engine, const void* dy, const void* y, void* dx,
                                                int64_t rows, int64_t cols, int64_t dy_row_stride, int64_t y_row_stride,
                                                int64_t dx_row_stride, int dtype, int out_dtype, tunesmith_stream stream) {
  return guarded([&] {
    SoftmaxBackwardProblem problem =
        backward_problem(rows, cols, dy_row_stride, y_row_stride, dx_row_stride, dtype, out_dtype);
    problem.logarithm = true;
    given(engine, "engine").engine.run(problem, {.dy = dy, .y = y, .dx = dx}, stream);
  });
}

tunesmith_status tunesmith_cross_entropy(tunesmith_engine* engine, const tunesmith_cross_entropy_arrays* arrays,
                                         const tunesmith_cross_entropy_problem* problem, tunesmith_stream stream) {
  return guarded([&] {
    const CrossEntropyCall call = cross_entropy_from_c(given(arrays, "arrays"), given(problem, "problem"));
    given(engine, "engine").engine.run_checked(call.problem, call.arrays, stream);
  });
}

tunesmith_status tunesmith_cross_entropy_backward(tunesmith_engine* engine,
                                                  const tunesmith_cross_entropy_backward_arrays* arrays,
                                                  const tunesmith_cross_entropy_problem* problem, tunesmith_stream stream) {
  return guarded([&] {
    const CrossEntropyBackwardCall call = cross_entropy_backward_from_c(given(arrays, "arrays"), given(problem, "problem"));
    given(engine, "engine").engine.run(call.problem, call.arrays, stream);
  });
}
