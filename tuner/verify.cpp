#include "tuner/verify.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tuner/evaluate.h"
#include "tuner/verifier.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::size_t canary_bytes = 256;  // keeps the alignment that allocations have

// 0xFF everywhere is a NaN in every dtype. The second run starts from another pattern: an element that still holds one and
// then the other was never written, even where NaN is the right result.
constexpr std::byte first_poison{0xFF};
constexpr std::byte second_poison{0x5A};

std::byte canary(std::size_t position) { return static_cast<std::byte>(0xA5 + 37 * position); }

void poison_elements(const std::vector<ElementRun>& runs, std::int64_t element_bytes, std::byte* elements,
                     std::byte poison) {
  for (const ElementRun& run : runs)
    std::memset(elements + run.begin * element_bytes, std::to_integer<int>(poison),
                static_cast<std::size_t>(run.count * element_bytes));
}

std::size_t first_mismatch(const std::byte* a, const std::byte* b, std::size_t begin, std::size_t end) {
  return static_cast<std::size_t>(std::mismatch(a + begin, a + end, b + begin).first - a);
}

}  // namespace

Verifier::Verifier(const ParsedProblem& verification_problem, Device& device, std::uint64_t seed, const ChangeInputs& change)
    : problem_(verification_problem), device_(device) {
  std::vector<HostArray> inputs;
  for (ArrayInfo& info : verification_problem.arrays()) {
    Guarded& array = arrays_.emplace_back();
    array.info = std::move(info);
    array.runs = element_runs(array.info);
    // An address that is aligned as promised and no better.
    array.offset = canary_bytes;
    if (static_cast<std::size_t>(array.info.alignment) < canary_bytes)
      array.offset += static_cast<std::size_t>(array.info.alignment);
    array.input.resize(array.offset + array.extent() + canary_bytes);
    for (std::size_t i = 0; i < array.input.size(); ++i) array.input[i] = canary(i);
    // Gaps between rows read as NaN.
    std::fill_n(array.elements(array.input), array.extent(), first_poison);
    array.memory = DeviceMemory(device, array.input.size());
  }
  for (Guarded& array : arrays_) inputs.push_back({array.info, array.elements(array.input)});
  verification_problem.fill_inputs(seed, InputKind::edge_cases, inputs);
  if (change) change(inputs);
}

void Verifier::complete_inputs(const Executable& executable) {
  if (completed_) return;
  std::vector<HostArray> inputs;
  for (Guarded& array : arrays_) inputs.push_back({array.info, array.elements(array.input)});
  problem_.complete_inputs(inputs, evaluate_on(device_, executable.module()));
  completed_ = true;
}

void Verifier::run(const Executable& executable, std::span<void* const> addresses, std::byte poison,
                   Image Guarded::*result) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (owners_[i] != i) continue;
    Guarded& array = arrays_[i];
    array.sent = array.input;
    if (!array.info.input) poison_elements(array.runs, size_of(array.info.dtype), array.elements(array.sent), poison);
    device_.copy_to_device(array.memory.get(), array.sent.data(), array.sent.size());
  }
  executable.poison_workspace(nullptr, std::to_integer<unsigned char>(poison));
  executable.enqueue(addresses, nullptr);
  device_.synchronize(nullptr);
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (owners_[i] != i) continue;
    Guarded& array = arrays_[i];
    (array.*result).resize(array.sent.size());
    device_.copy_to_host((array.*result).data(), array.memory.get(), array.sent.size());
  }
}

// Everything but the elements of an output must be as it was sent.
std::string Verifier::stray_write(const Guarded& array, const Image& result, bool is_output) const {
  const auto element_bytes = static_cast<std::size_t>(size_of(array.info.dtype));
  const std::size_t end = array.offset + array.extent();
  const auto changed = [&](std::size_t from, std::size_t to) {
    const std::size_t at = first_mismatch(result.data(), array.sent.data(), from, to);
    return at == to ? std::numeric_limits<std::size_t>::max() : at;
  };
  constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  if (const std::size_t at = changed(0, array.offset); at != nowhere)
    return array.info.name + ": written " + std::to_string(array.offset - at) + " bytes before its first element";
  if (const std::size_t at = changed(end, result.size()); at != nowhere)
    return array.info.name + ": written " + std::to_string(at - end) + " bytes beyond its last element";
  if (!is_output) {
    const std::size_t at = changed(array.offset, end);
    if (at == nowhere) return {};
    return element_name(array.info, static_cast<std::int64_t>((at - array.offset) / element_bytes)) +
           " is an input and was written";
  }
  std::size_t gap = array.offset;
  for (const ElementRun& run : array.runs) {
    const std::size_t begin = array.offset + static_cast<std::size_t>(run.begin) * element_bytes;
    if (const std::size_t at = changed(gap, begin); at != nowhere)
      return array.info.name + ": written between its rows, " + std::to_string((at - gap) / element_bytes) +
             " elements behind " +
             element_name(array.info, static_cast<std::int64_t>((gap - array.offset) / element_bytes) - 1);
    gap = begin + static_cast<std::size_t>(run.count) * element_bytes;
  }
  return {};
}

// Elements only: everything else has been compared with what was sent.
std::string Verifier::difference(const Guarded& array) const {
  const auto element_bytes = static_cast<std::size_t>(size_of(array.info.dtype));
  const std::size_t end = array.offset + array.extent();
  const std::size_t at = first_mismatch(array.first.data(), array.second.data(), array.offset, end);
  if (at == end) return {};
  const std::size_t element = (at - array.offset) / element_bytes;
  const auto holds = [&](const Image& image, std::byte poison) {
    const std::byte* const bytes = image.data() + array.offset + element * element_bytes;
    return std::all_of(bytes, bytes + element_bytes, [&](std::byte byte) { return byte == poison; });
  };
  const std::string name = element_name(array.info, static_cast<std::int64_t>(element));
  if (!array.info.input && holds(array.first, first_poison) && holds(array.second, second_poison))
    return name + " is not written";
  return name + " differs between two runs on the same input";
}

CheckResult Verifier::check(const Executable& executable) {
  CheckResult result;
  if (executable.plan().kernels.empty()) return result;
  std::vector<ArrayInfo> infos;
  for (const Guarded& array : arrays_) infos.push_back(array.info);
  owners_ = storage_owners(infos);

  const std::vector<std::string>& sums_in_any_order = executable.plan().sums_in_any_order;
  const auto is_sum_in_any_order = [&](const std::string& name) {
    return std::ranges::find(sums_in_any_order, name) != sums_in_any_order.end();
  };
  std::vector<void*> addresses;
  std::vector<bool> is_output(arrays_.size(), false);
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Guarded& owner = arrays_[owners_[i]];
    addresses.push_back(owner.memory.get() + owner.offset);
    if (arrays_[i].info.output) is_output[owners_[i]] = true;
  }
  complete_inputs(executable);
  run(executable, addresses, first_poison, &Guarded::first);
  for (std::size_t i = 0; i < arrays_.size() && result.first_failure.empty(); ++i)
    if (owners_[i] == i) result.first_failure = stray_write(arrays_[i], arrays_[i].first, is_output[i]);
  if (result.first_failure.empty()) {
    run(executable, addresses, second_poison, &Guarded::second);
    for (std::size_t i = 0; i < arrays_.size() && result.first_failure.empty(); ++i) {
      if (owners_[i] != i) continue;
      result.first_failure = stray_write(arrays_[i], arrays_[i].second, is_output[i]);
      if (result.first_failure.empty() && !is_sum_in_any_order(arrays_[i].info.name))
        result.first_failure = difference(arrays_[i]);
    }
  }
  if (!result.first_failure.empty()) {
    result.passed = false;
    return result;
  }

  const auto compare = [&](Image Guarded::*results) {
    std::vector<HostArray> arrays;
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      Guarded& owner = arrays_[owners_[i]];
      const ArrayInfo& info = arrays_[i].info;
      arrays.push_back({info, owner.elements(info.output ? owner.*results : owner.input),
                        info.input && info.output ? owner.elements(owner.input) : nullptr});
    }
    return problem_.check_outputs(arrays, std::numeric_limits<std::int64_t>::max(),
                                  evaluate_on(device_, executable.module()));
  };
  result = compare(&Guarded::first);
  if (result.passed && !sums_in_any_order.empty()) result = compare(&Guarded::second);
  return result;
}

CheckResult verify(const ParsedProblem& verification_problem, const Executable& executable, Device& device,
                   std::uint64_t seed, const ChangeInputs& change) {
  return Verifier(verification_problem, device, seed, change).check(executable);
}

}  // namespace tunesmith
