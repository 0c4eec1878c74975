// Host time of a launch: the raw driver call, a prepared plan, the one-shot call. The kernel is tiny and the queue is
// drained outside of the timed part, so that only host time is measured.

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstring>

#include "bench/gpu.h"
#include "bench/register.h"
#include "jit/cuda/driver.h"
#include "tuner/build.h"
#include "tunesmith/buffer.h"

namespace tunesmith::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int launches = 256;  // fewer than the driver's queue holds, so that no call waits

/// Launches the plan's kernel through cuLaunchKernel alone.
class RawKernel {
 public:
  RawKernel(Engine& engine, const Plan& plan, const void* x, void* y) : driver_(Driver::open()) {
    const Engine::Parts& parts = engine.parts();
    const Op& op = find_op(plan.problem().op);
    const Built built = build_binary({*op.parse(plan.problem()), plan.config(), parts.templates}, parts.device->info().arch,
                                     *parts.compiler, *parts.cache);
    image_ = built.binary.image;
    launch_ = op.parse(plan.problem())->launch_plan(plan.config(), parts.device->info());
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    const Driver& driver = *driver_;
    driver.check(driver->primary_retain(&context_, parts.device->info().ordinal), "cuDevicePrimaryCtxRetain");
    driver.check(driver->ctx_push(context_), "cuCtxPushCurrent");
    driver.check(driver->library_load_data(&library, image_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                 "cuLibraryLoadData");
    driver.check(driver->library_get_kernel(&kernel, library, launch_.kernels[0].entry.c_str()), "cuLibraryGetKernel");
    driver.check(driver->kernel_get_function(&function_, kernel), "cuKernelGetFunction");
    std::memcpy(launch_.params.data() + launch_.pointers[0].offset, &x, sizeof x);
    std::memcpy(launch_.params.data() + launch_.pointers[1].offset, &y, sizeof y);
  }

  void launch() {
    const KernelLaunch& kernel = launch_.kernels[0];
    void* params[] = {launch_.params.data()};
    (*driver_)->launch_kernel(function_, kernel.grid.x, kernel.grid.y, kernel.grid.z, kernel.block.x, kernel.block.y,
                              kernel.block.z, 0, nullptr, params, nullptr);
  }

 private:
  std::shared_ptr<const Driver> driver_;
  std::string image_;
  LaunchPlan launch_;
  cuda::ContextHandle context_ = nullptr;
  cuda::FunctionHandle function_ = nullptr;
};

template <typename Call>
double nanoseconds_per_call(Engine& engine, const Call& call) {
  const auto start = Clock::now();
  for (int i = 0; i < launches; ++i) call();
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  engine.synchronize();
  return elapsed.count() / launches;
}

void run(benchmark::State& state, Engine& engine) {
  constexpr std::int64_t rows = 64, cols = 1024;
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, DType::f32);
  const DeviceBuffer x(engine, rows * cols * 4), y(engine, rows * cols * 4);
  PrepareOptions options;
  options.mode = Mode::off;
  const Plan plan = engine.prepare(problem, options);
  RawKernel raw(engine, plan, x.data(), y.data());
  const auto one_shot = [&] { engine.softmax(x.data(), y.data(), problem); };
  one_shot();

  std::array<std::vector<double>, 3> samples;
  for (int round = 0; round < 201; ++round) {  // interleaved, so that all three run at the same clocks
    samples[0].push_back(nanoseconds_per_call(engine, [&] { raw.launch(); }));
    samples[1].push_back(nanoseconds_per_call(engine, [&] { plan.launch(x.data(), y.data()); }));
    samples[2].push_back(nanoseconds_per_call(engine, one_shot));
  }
  const double raw_ns = median(samples[0]), plan_ns = median(samples[1]), one_shot_ns = median(samples[2]);
  for (auto _ : state) state.SetIterationTime(plan_ns * 1e-9);
  state.counters["raw_ns"] = raw_ns;
  state.counters["plan_ns"] = plan_ns;
  state.counters["one_shot_ns"] = one_shot_ns;
  state.counters["plan_over_raw_ns"] = plan_ns - raw_ns;
  state.counters["one_shot_over_raw_ns"] = one_shot_ns - raw_ns;
}

}  // namespace

void register_dispatch(Engine& engine) {
  register_timed(
      "dispatch/host", [&engine](benchmark::State& state) { run(state, engine); }, benchmark::kNanosecond);
}

}  // namespace tunesmith::bench
