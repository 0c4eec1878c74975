// Plan: a handle to shared, immutable state.

#include <array>

#include "api/engine/in_order.h"
#include "api/engine/plan_state.h"
#include "tuner/build.h"
#include "tunesmith/error.h"

namespace tunesmith {

void Plan::launch(std::span<void* const> arrays, Stream stream) const { state_->executable->enqueue(arrays, stream); }

void Plan::launch(const void* x, void* y, Stream stream) const {
  const std::array<void*, 2> arrays{const_cast<void*>(x), y};
  state_->executable->enqueue(arrays, stream);
}

void Plan::launch(std::initializer_list<NamedArray> arrays, Stream stream) const {
  launch(std::span<const NamedArray>(arrays.begin(), arrays.size()), stream);
}

void Plan::launch(std::span<const NamedArray> arrays, Stream stream) const {
  state_->executable->enqueue(in_order(state_->problem->array_view(), arrays), stream);
}

std::span<const ArrayInfo> Plan::arrays() const { return state_->problem->described_arrays(); }
const Problem& Plan::problem() const noexcept { return state_->problem->problem(); }
const Config& Plan::config() const noexcept { return state_->config.config(); }
Origin Plan::origin() const noexcept { return state_->origin; }
std::int64_t Plan::capacity() const noexcept { return state_->capacity; }
std::int64_t Plan::nearest_n_cols() const noexcept { return state_->nearest_n_cols; }
const std::string& Plan::source() const { return state_->loaded->source.get(); }
bool Plan::compiled() const noexcept { return state_->compiled; }
double Plan::compile_ms() const noexcept { return state_->compile_ms; }
double Plan::tune_s() const noexcept { return state_->tune_s; }
double Plan::bytes() const noexcept { return state_->problem->cost().bytes(); }
double Plan::flops() const noexcept { return state_->problem->cost().flops; }
bool Plan::deterministic() const noexcept { return state_->executable->plan().sums_in_any_order.empty(); }

int Plan::occupancy() const noexcept try {
  const LaunchPlan& plan = state_->executable->plan();
  return plan.kernels.empty() ? 0 : state_->loaded->module->occupancy(plan.kernels[plan.main_kernel]);
} catch (const Error&) {  // the device no longer works
  return 0;
}

std::string Plan::resources() const {
  const LaunchPlan& plan = state_->executable->plan();
  if (plan.kernels.empty()) return {};
  const auto& all = state_->loaded->binary.resources;
  const auto found = all.find(plan.kernels[plan.main_kernel].entry);
  if (found == all.end()) return {};
  return text(found->second);
}

}  // namespace tunesmith
