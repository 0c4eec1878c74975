#include "templates/op.h"

namespace tunesmith {

ParsedProblemPtr ParsedProblem::with(const Fields& changes) const {
  Problem changed = problem_;
  for (const auto& [field, value] : changes) changed.fields.set(field, value);
  return op_.parse(changed);
}

Problem Op::normalize(const Problem& problem) const { return parse(problem)->problem(); }

}  // namespace tunesmith
