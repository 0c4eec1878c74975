#pragma once
// Fills a cache for many problems.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "api/cli/tuning/prewarm_spec.h"
#include "api/cli/tuning/tune_child.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

struct PrewarmSettings {
  Effort effort = Effort::full;
  double budget_s = 10;      ///< per problem
  int jobs = 0;              ///< compile threads of all GPUs; 0: one per core (tune_ahead: less one for each GPU)
  bool force = false;        ///< tune_ahead: TuneOptions::force
  bool all_configs = false;  ///< compile_ahead: the whole search space
  /// tune_ahead: GPUs to work on at the same time; empty: the engine's.
  std::vector<std::string> devices{};
};

struct PrewarmFailure {
  std::string what;
  Error error;
};

/// Also names the user sources of the problem, which are the likely cause.
PrewarmFailure failure_of(const std::string& what, const SpecProblem& asked, const Error& error);

struct PrewarmResult {
  int problems = 0;
  int total = 0, done = 0;  ///< binaries, or tuned problems
  int made = 0;             ///< number of `done` that were not in the cache before
  std::vector<PrewarmFailure> failures;
  bool interrupted = false;
  double wall_s = 0;
};

/// Wall time since its construction.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Compiles for each architecture (comma-separated; empty: this machine's GPU) and stores the binaries. An interrupt stops
/// it between two binaries. Throws Error(no_compiler), Error(cache_failed) if the file cannot be written, and
/// Error(invalid_argument).
PrewarmResult compile_ahead(const std::vector<SpecProblem>& problems, const std::string& archs,
                            const PrewarmSettings& settings, const EngineOptions& options);

/// Tunes each problem in its own child process. While one is measured on a GPU, the next one compiles. GPUs that have
/// a problem share the compile threads equally. `tune_one` is called from at most two threads at a time for each GPU, and
/// must use the GPU only after `turn` is given. Throws Error(no_device) without a GPU.
PrewarmResult tune_ahead(const std::vector<SpecProblem>& problems, const PrewarmSettings& settings,
                         const EngineOptions& options,
                         const std::function<Json(const TuneRequest&)>& tune_one = tune_in_child);

}  // namespace tunesmith::cli
