#include "api/cli/cache/recorded.h"

#include "tuner/recorded.h"

namespace tunesmith::cli {

ParsedProblemPtr recorded_problem(const TuningRecord& record) {
  return tunesmith::recorded_problem(find_op(record.key.op), record);
}

Config recorded_config(const TuningRecord& record) { return {parse_fields(record.config, "recorded config")}; }

}  // namespace tunesmith::cli
