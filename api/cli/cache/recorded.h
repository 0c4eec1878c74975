#pragma once
// Problems and configurations as tuning records have them. All functions throw Error for a record of another version.

#include "cache/cache.h"
#include "templates/op.h"

namespace tunesmith::cli {

/// Parses the problem that was measured.
ParsedProblemPtr recorded_problem(const TuningRecord& record);
/// Parses the fastest configuration.
Config recorded_config(const TuningRecord& record);

}  // namespace tunesmith::cli
