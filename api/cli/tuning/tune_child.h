#pragma once
// Tuning in a process of its own: a candidate that faults poisons that process's CUDA context, not ours.

#include <nlohmann/json.hpp>
#include <string>

#include "tuner/tune.h"
#include "tunesmith/engine.h"
#include "tunesmith/problem.h"

namespace tunesmith::cli {

using Json = nlohmann::ordered_json;

struct TuneRequest {
  Problem problem;
  std::string device = "auto";
  std::filesystem::path cache_file;  ///< empty: the environment's
  Effort effort = Effort::full;
  double budget_s = 10;
  int jobs = 0;
  bool force = false;
};

/// Tunes in this process, showing progress on stderr. Returns the facts of the result. Throws Error.
Json tune_here(const TuneRequest& request, const EngineOptions& options);

/// What tune_here() returns for a result.
Json tuning_facts(const Problem& problem, const DeviceInfo& device, const TuneResult& result,
                  const std::filesystem::path& cache_file);

/// Tunes in a child. Throws the child's Error, or Error(device_failed) when it died.
Json tune_in_child(const TuneRequest& request);

/// What a child prints instead of a result.
Json to_json(const Error& error);

/// One line, safe for any bytes in messages.
std::string dump(const Json& json);
/// Indented, for people.
std::string dump_pretty(const Json& json);
/// Name -> value, numbers as numbers.
Json to_json(const Fields& fields);

}  // namespace tunesmith::cli
