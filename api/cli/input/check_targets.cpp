#include "api/cli/input/check_targets.h"

#include <algorithm>

#include "api/dispatch/bad_targets.h"
#include "core/half.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {

std::string bad_targets(const Problem& problem, const std::vector<HostArray>& arrays) {
  const auto integer_of = [&](std::string_view name, std::int64_t index) {
    const auto array = std::ranges::find_if(arrays, [&](const HostArray& one) { return one.info.name == name; });
    return read_integer(array->info.dtype, array->data, index);
  };
  const std::int64_t count = integer_of("bad_targets", 0), row = integer_of("bad_targets", 1);
  if (count == 0) return {};
  const Fields& fields = problem.fields;
  const std::int64_t classes = fields.integer(fields.contains("vocab_size") ? "vocab_size" : "cols");
  const std::int64_t ignored = fields.contains("ignore_index") ? fields.integer("ignore_index") : -100;
  return bad_target_text(row, integer_of("targets", row), classes, ignored, count);
}

}  // namespace tunesmith::cli
