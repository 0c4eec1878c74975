#include "templates/op.h"

namespace tunesmith {

ParsedProblemPtr ParsedProblem::with(const Fields& changes) const {
  Problem changed = problem_;
  for (const auto& [field, value] : changes) changed.fields.set(field, value);
  return op_.parse(changed);
}

std::span<const FieldInfo> Op::cached_fields() const {
  std::call_once(fields_once_, [this] { fields_ = problem_fields(); });
  return fields_;
}

Problem Op::normalize(const Problem& problem) const { return parse(problem)->problem(); }

}  // namespace tunesmith
