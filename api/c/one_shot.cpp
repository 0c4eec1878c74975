#include "api/c/one_shot.h"

#include <algorithm>
#include <string_view>

#include "api/c/arrays.h"
#include "api/c/problem.h"
#include "templates/op.h"
#include "tunesmith/dispatch.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// The properties of an address that decide the plan: its alignment, and the first array with the same address.
std::uint16_t pattern_at(std::span<void* const> addresses, std::size_t i) noexcept {
  const auto same = static_cast<unsigned>(std::ranges::find(addresses, addresses[i]) - addresses.begin());
  const auto alignment = static_cast<unsigned>(std::countr_zero(static_cast<std::uint64_t>(alignment_class(addresses[i]))));
  return static_cast<std::uint16_t>(same << 3 | alignment);
}

bool has_pattern(std::span<void* const> addresses, std::span<const std::uint16_t> pattern) noexcept {
  if (addresses.size() != pattern.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern_at(addresses, i) != pattern[i]) return false;
  return true;
}

void check_addresses(std::span<const ArrayInfo> arrays, std::span<void* const> addresses) {
  if (addresses.size() != arrays.size())
    throw Error(ErrorCode::invalid_argument, "got ", addresses.size(), " arrays; the operation takes ", arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ArrayInfo& array = arrays[i];
    const std::int64_t bytes = array.extent_bytes(), element = size_of(array.dtype);
    if (bytes == 0) continue;
    if (addresses[i] == nullptr && !array.optional)
      throw Error(ErrorCode::invalid_argument, "array '", array.name, "' is a null pointer; expected ", bytes,
                  " bytes of device memory");
    if (reinterpret_cast<std::uintptr_t>(addresses[i]) % static_cast<std::uintptr_t>(element) != 0)
      throw Error(ErrorCode::invalid_argument, "array '", array.name, "' is at ", addresses[i], "; ", name(array.dtype),
                  " needs an address that is a multiple of ", element, " bytes");
  }
}

/// Reports whether output `output` has the address of an input.
bool is_in_place(std::span<const ArrayInfo> arrays, std::span<void* const> addresses, std::size_t output) {
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (i != output && arrays[i].input && addresses[i] == addresses[output] && arrays[i].extent_bytes() > 0) return true;
  return false;
}

}  // namespace

Problem problem_at(const Problem& problem, std::span<const ArrayInfo> arrays, std::span<void* const> addresses) {
  check_addresses(arrays, addresses);
  Problem result = problem;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ArrayInfo& array = arrays[i];
    if (!array.alignment_field.empty())
      result.fields.set(array.alignment_field,
                        array.extent_bytes() == 0 ? size_of(array.dtype) : alignment_class(addresses[i]));
    if (array.in_place_field.empty()) continue;
    const bool in_place = is_in_place(arrays, addresses, i);
    const Value* const asked = problem.fields.find(array.in_place_field);
    const bool is_choice = asked != nullptr && std::holds_alternative<std::string>(*asked);
    result.fields.set(array.in_place_field,
                      is_choice ? Value(in_place ? "in_place" : "separate") : Value(std::int64_t{in_place}));
  }
  return result;
}

std::shared_ptr<const Prepared> RecentPlans::find(std::uint64_t engine, std::span<void* const> addresses) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.engine == engine && has_pattern(addresses, entry.pattern)) return entry.plan;
  return nullptr;
}

void RecentPlans::add(std::uint64_t engine, std::span<void* const> addresses, std::shared_ptr<const Prepared> plan) {
  Entry entry{engine, {}, std::move(plan)};
  for (std::size_t i = 0; i < addresses.size(); ++i) entry.pattern.push_back(pattern_at(addresses, i));
  const std::lock_guard lock(mutex_);
  if (entries_.size() < most) {
    entries_.push_back(std::move(entry));
    return;
  }
  entries_[oldest_] = std::move(entry);
  oldest_ = (oldest_ + 1) % most;
}

void RecentPlans::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  oldest_ = 0;
}

}  // namespace tunesmith

using namespace tunesmith;

tunesmith_status tunesmith_run(tunesmith_engine* engine, const tunesmith_problem* problem, void* const* addresses,
                               size_t count, tunesmith_stream stream) {
  return guarded([&] {
    tunesmith_engine& owner = given(engine, "engine");
    const tunesmith_problem& asked = given(problem, "problem");
    const std::span<void* const> arrays = given_addresses(addresses, count);
    std::shared_ptr<const Prepared> plan = asked.recent_plans().find(owner.id, arrays);
    if (plan == nullptr) {
      const Problem call = problem_at(asked.problem(), check_problem(asked.problem()).arrays, arrays);
      plan = std::make_shared<const Prepared>(Prepared::make(owner.engine, call, {}, stream));
      asked.recent_plans().add(owner.id, arrays, plan);
    }
    plan->launch(arrays, stream);
  });
}
