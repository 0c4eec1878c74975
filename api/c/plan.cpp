// Plans of the C API: prepare, launch, properties.

#include <algorithm>
#include <functional>
#include <vector>

#include "api/c/arrays.h"
#include "api/c/operations.h"
#include "api/c/problem.h"
#include "api/engine/parts.h"
#include "api/engine/plan_state.h"

using namespace tunesmith;

struct tunesmith_plan {
  explicit tunesmith_plan(Prepared made)
      : prepared(std::move(made)),
        arrays(prepared.arrays()),
        problem(prepared.text()),
        config(prepared.kernels().config().text()),
        resources(prepared.kernels().resources()) {}

  const Prepared prepared;
  const ArrayTable arrays;
  const std::string problem, config, resources;
};

namespace {

static_assert(static_cast<int>(Mode::replay) == TUNESMITH_MODE_REPLAY && static_cast<int>(Mode::off) == TUNESMITH_MODE_OFF &&
              static_cast<int>(Mode::later) == TUNESMITH_MODE_LATER);

PrepareOptions prepare_options(const char* config, int mode) {
  PrepareOptions options;
  if (config != nullptr) options.config = {parse_fields(config, "config")};
  if (mode < TUNESMITH_MODE_OF_ENGINE || mode > TUNESMITH_MODE_LATER)
    throw Error(ErrorCode::invalid_argument, "mode is ", mode,
                "; allowed: -1 (the engine's), 0 (tune), 1 (replay), 2 (off), 3 (later)");
  if (mode != TUNESMITH_MODE_OF_ENGINE) options.mode = static_cast<Mode>(mode);
  return options;
}

}  // namespace

tunesmith_status tunesmith_prepare(tunesmith_engine* engine, const tunesmith_problem* problem, const char* config, int mode,
                                   tunesmith_plan** plan) {
  return guarded([&] {
    const PrepareOptions options = prepare_options(config, mode);
    tunesmith_plan*& result = given(plan, "plan");
    Engine& owner = given(engine, "engine").engine;
    result = new tunesmith_plan(Prepared::make(owner, given(problem, "problem").problem(), options));
  });
}

void tunesmith_plan_destroy(tunesmith_plan* plan) { delete plan; }

const tunesmith_array* tunesmith_plan_arrays(const tunesmith_plan* plan, size_t* count) {
  const std::span<const tunesmith_array> arrays =
      plan == nullptr ? std::span<const tunesmith_array>() : plan->arrays.arrays();
  if (count != nullptr) *count = arrays.size();
  return arrays.data();
}

tunesmith_status tunesmith_plan_launch(const tunesmith_plan* plan, void* const* addresses, size_t count,
                                       tunesmith_stream stream) {
  return guarded([&] { given(plan, "plan").prepared.launch(given_addresses(addresses, count), stream); });
}

tunesmith_status tunesmith_plan_launch_named(const tunesmith_plan* plan, const char* const* names, void* const* addresses,
                                             size_t count, tunesmith_stream stream) {
  return guarded([&] {
    const Prepared& prepared = given(plan, "plan").prepared;
    const std::span<void* const> values = given_addresses(addresses, count);
    if (names == nullptr && count > 0) throw Error(ErrorCode::invalid_argument, "names is NULL; expected ", count, " names");
    std::vector<NamedArray> arrays;
    for (std::size_t i = 0; i < count; ++i) arrays.push_back({&given(names[i], "a name"), values[i]});
    prepared.launch(std::span<const NamedArray>(arrays), stream);
  });
}

tunesmith_status tunesmith_plan_time_us(const tunesmith_plan* plan, void* const* addresses, size_t count, int repeats,
                                        int flush_cache, double* time_us) {
  return guarded([&] {
    const Prepared& timed = given(plan, "plan").prepared;
    const std::span<void* const> arrays = given_addresses(addresses, count);
    constexpr int max_repeats = 1'000'000;
    if (repeats < 1 || repeats > max_repeats)
      throw Error(ErrorCode::invalid_argument, "repeats is ", repeats, "; allowed: 1 to ", max_repeats);
    double* const result = &given(time_us, "time_us");
    const std::vector<std::function<void(Stream)>> works(static_cast<std::size_t>(repeats),
                                                         [&](Stream stream) { timed.launch(arrays, stream); });
    const std::vector<double> times = timed.kernels().state().device->time_us(works, flush_cache != 0);
    std::copy_n(times.begin(), std::min(times.size(), works.size()), result);
  });
}

const char* tunesmith_plan_problem(const tunesmith_plan* plan) { return plan == nullptr ? "" : plan->problem.c_str(); }
const char* tunesmith_plan_config(const tunesmith_plan* plan) { return plan == nullptr ? "" : plan->config.c_str(); }
const char* tunesmith_plan_origin(const tunesmith_plan* plan) {
  return plan == nullptr ? "" : name(plan->prepared.kernels().origin()).data();
}
const char* tunesmith_plan_source(const tunesmith_plan* plan) try {
  return plan == nullptr ? "" : plan->prepared.kernels().source().c_str();
} catch (const std::exception&) {  // out of memory
  return "";
}
const char* tunesmith_plan_resources(const tunesmith_plan* plan) { return plan == nullptr ? "" : plan->resources.c_str(); }
int tunesmith_plan_compiled(const tunesmith_plan* plan) {
  return plan != nullptr && plan->prepared.kernels().compiled() ? 1 : 0;
}
double tunesmith_plan_compile_ms(const tunesmith_plan* plan) {
  return plan == nullptr ? 0 : plan->prepared.kernels().compile_ms();
}
double tunesmith_plan_tune_s(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->prepared.kernels().tune_s(); }
int tunesmith_plan_occupancy(const tunesmith_plan* plan) {
  return plan == nullptr ? 0 : plan->prepared.kernels().occupancy();
}
double tunesmith_plan_bytes(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->prepared.kernels().bytes(); }
double tunesmith_plan_flops(const tunesmith_plan* plan) { return plan == nullptr ? 0 : plan->prepared.kernels().flops(); }
int tunesmith_plan_deterministic(const tunesmith_plan* plan) {
  return plan != nullptr && plan->prepared.kernels().deterministic() ? 1 : 0;
}

size_t tunesmith_plan_workspace_bytes(const tunesmith_plan* plan) {
  return plan == nullptr ? 0 : plan->prepared.workspace_bytes();
}
