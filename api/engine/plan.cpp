// Plan: a handle to shared, immutable state.

#include <algorithm>
#include <array>
#include <vector>

#include "api/engine/plan_state.h"
#include "core/nearest.h"
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
  const std::vector<ArrayInfo>& infos = state_->arrays;
  std::vector<void*> addresses(infos.size());
  for (const NamedArray& array : arrays) {
    const auto info = std::ranges::find(infos, array.name, &ArrayInfo::name);
    if (info == infos.end()) {
      std::vector<std::string_view> names;
      std::string all;
      for (const ArrayInfo& known : infos) {
        names.push_back(known.name);
        all += (all.empty() ? "" : ", ") + known.name;
      }
      const std::string_view nearest = nearest_name(array.name, names);
      throw Error(ErrorCode::invalid_argument, "the plan has no array '", array.name, "'",
                  nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?", "; allowed: ", all);
    }
    addresses[static_cast<std::size_t>(info - infos.begin())] = const_cast<void*>(array.address);
  }
  state_->executable->enqueue(addresses, stream);
}

std::span<const ArrayInfo> Plan::arrays() const noexcept { return state_->arrays; }
const Problem& Plan::problem() const noexcept { return state_->problem->problem(); }
const Config& Plan::config() const noexcept { return state_->config; }
Origin Plan::origin() const noexcept { return state_->origin; }
std::int64_t Plan::nearest_n_cols() const noexcept { return state_->nearest_n_cols; }
const std::string& Plan::source() const { return state_->loaded->source.get(); }
bool Plan::compiled() const noexcept { return state_->compiled; }
double Plan::compile_ms() const noexcept { return state_->compile_ms; }
double Plan::tune_s() const noexcept { return state_->tune_s; }
int Plan::occupancy() const noexcept { return state_->occupancy; }
double Plan::bytes() const noexcept { return state_->bytes; }
double Plan::flops() const noexcept { return state_->flops; }

std::string Plan::resources() const {
  const LaunchPlan& plan = state_->executable->plan();
  if (plan.kernels.empty()) return {};
  const auto& all = state_->loaded->binary.resources;
  const auto found = all.find(plan.kernels[plan.main_kernel].entry);
  if (found == all.end()) return {};
  return text(found->second);
}

}  // namespace tunesmith
