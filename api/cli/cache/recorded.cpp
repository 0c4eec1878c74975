#include "api/cli/cache/recorded.h"

namespace tunesmith::cli {

ParsedProblemPtr recorded_problem(const TuningRecord& record) {
  const Op& op = find_op(record.key.op);
  const std::string fields = record.problem.substr(record.problem.find(' ') + 1);
  return op.parse(op.normalize({record.key.op, parse_fields(fields, "recorded problem")}));
}

Config recorded_config(const TuningRecord& record) { return {parse_fields(record.config, "recorded config")}; }

}  // namespace tunesmith::cli
