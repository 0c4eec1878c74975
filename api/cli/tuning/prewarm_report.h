#pragma once
// Output of commands that fill a cache.

#include <string>
#include <vector>

#include "api/cli/tuning/prewarm.h"

namespace tunesmith::cli {

Json to_json(const PrewarmResult& result, const EngineOptions& options);

/// Prints the result as lines. `what` names the made things: "binaries", "tuned".
void print(const PrewarmResult& result, const EngineOptions& options, const std::string& what);

/// Prints each error once on stderr, after the binaries that it affects: a mistake in a user source fails every binary built
/// from it.
void report_failures(const std::vector<PrewarmFailure>& failures);

}  // namespace tunesmith::cli
