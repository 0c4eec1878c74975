#pragma once
// Fills a cache for many problems.

#include <string>
#include <vector>

#include "api/cli/tuning/prewarm_spec.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

struct PrewarmSettings {
  Effort effort = Effort::full;
  double budget_s = 10;      ///< per problem
  int jobs = 0;              ///< compile threads; 0: one per core
  bool all_configs = false;  ///< compile_ahead: the whole search space
};

struct PrewarmFailure {
  std::string what;
  Error error;
};

struct PrewarmResult {
  int problems = 0;
  int total = 0, done = 0;  ///< binaries, or tuned problems
  int made = 0;             ///< number of `done` that were not in the cache before
  std::vector<PrewarmFailure> failures;
  bool interrupted = false;
  double wall_s = 0;
};

/// Compiles for each architecture (comma-separated; empty: this machine's GPU) and stores the binaries. An interrupt stops
/// it between two binaries. Throws Error(no_compiler), Error(cache_failed) if the file cannot be written, and
/// Error(invalid_argument).
PrewarmResult compile_ahead(const std::vector<SpecProblem>& problems, const std::string& archs,
                            const PrewarmSettings& settings, const EngineOptions& options);

/// Tunes each problem in its own child process. Throws Error(no_device) without a GPU.
PrewarmResult tune_ahead(const std::vector<SpecProblem>& problems, const PrewarmSettings& settings,
                         const EngineOptions& options);

}  // namespace tunesmith::cli
