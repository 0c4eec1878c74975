#pragma once
// Error text for out-of-range targets. Internal: the one-shot calls and the command line.

#include <cstdint>
#include <string>

namespace tunesmith {

/// `row` is the first of `count` rows whose target is neither a class (0 to classes - 1) nor ignore_index.
inline std::string bad_target_text(std::int64_t row, std::int64_t target, std::int64_t classes, std::int64_t ignore_index,
                                   std::int64_t count) {
  return "targets[" + std::to_string(row) + "] is " + std::to_string(target) + "; allowed: 0 to " +
         std::to_string(classes - 1) + ", or ignore_index " + std::to_string(ignore_index) + " (" + std::to_string(count) +
         (count == 1 ? " row" : " rows") + " in all)";
}

}  // namespace tunesmith
