#include "templates/op.h"

#include "tunesmith/error.h"

namespace tunesmith {

ParsedProblemPtr ParsedProblem::with(const Fields& changes) const {
  Problem changed = problem_;
  for (const auto& [field, value] : changes) changed.fields.set(field, value);
  return op_.parse(changed);
}

std::string ParsedProblem::why_invalid(const DeviceInfo& device, const Config& config) const {
  try {
    return why_invalid(device, configure(config));
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<ArrayInfo> ParsedProblem::arrays() const {
  const std::span<const ArrayInfo> described = described_arrays();
  return {described.begin(), described.end()};
}

std::span<const ArrayInfo> ParsedProblem::described_arrays() const {
  std::call_once(described_once_, [this] { described_ = describe_(); });
  return described_;
}

std::span<const FieldInfo> Op::cached_fields() const {
  std::call_once(fields_once_, [this] { fields_ = problem_fields(); });
  return fields_;
}

Problem Op::normalize(const Problem& problem) const { return parse(problem)->problem(); }

}  // namespace tunesmith
