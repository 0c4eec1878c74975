#include "api/linear_cross_entropy/arrays.h"

#include <array>
#include <span>

#include "api/linear_cross_entropy/description.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// An array of a launch, from the description.
struct Given {
  ArrayFacts facts;
  const void* address = nullptr;

  std::int64_t bytes() const noexcept {
    std::int64_t elements = 1;
    for (const Extent& extent : facts.shape) elements *= extent.value;
    return elements * size_of(facts.dtype);
  }
  std::int64_t alignment() const noexcept {
    if (facts.alignment != nullptr) return *facts.alignment;
    return facts.aligned_to != 0 ? facts.aligned_to : size_of(facts.dtype);
  }
  bool written() const noexcept { return facts.role != Role::input; }
};

/// Collects the arrays of a launch without allocating memory.
struct ArrayList {
  std::array<Given, 20> arrays{};
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

}  // namespace

void check_arrays(const LinearCrossEntropyProblem& problem, const LinearCrossEntropyArrays& arrays,
                  std::size_t workspace_bytes) {
  ArrayList list;
  describe_linear_arrays(problem, arrays, static_cast<std::int64_t>(workspace_bytes), list);
  check(std::span(list.arrays).first(list.count));
}

}  // namespace tunesmith
