#pragma once
// Tunes in a child process, so that a candidate that faults destroys only the child's CUDA context.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "api/cli/tuning/turn.h"
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
  std::function<void(int, int, const std::string&)> observer{};  ///< called for each step, like TuneOptions::progress
  std::function<void()> before_device{};                         ///< tune_here: TuneOptions::before_device
  std::function<void()> compiled{};                              ///< TuneOptions::compiled
  const Turn* turn = nullptr;                                    ///< tune_in_child: the child uses the GPU after it is given
  std::function<bool()> stop{};  ///< tune_in_child: becomes true when the result is not wanted
};

/// Tunes in this process, shows progress on stderr and returns the facts of the result. Throws Error.
Json tune_here(const TuneRequest& request, const EngineOptions& options);

/// Returns the facts of a result, as tune_here() does.
Json tuning_facts(const Problem& problem, const DeviceInfo& device, const TuneResult& result,
                  const std::filesystem::path& cache_file);

/// A child with a turn prints this line when compilation is complete; its last line is the answer.
inline constexpr const char* compiled_line = "compiled";

/// Tunes in a child process. Throws the child's Error, Error(cancelled) after an interrupt or `stop`, or
/// Error(device_failed) if it crashed.
Json tune_in_child(const TuneRequest& request);

/// The error as a child prints it in place of a result.
Json to_json(const Error& error);

/// Prints on one line; invalid UTF-8 is replaced.
std::string dump(const Json& json);
/// Prints indented.
std::string dump_pretty(const Json& json);
/// Names and values; numbers stay numbers.
Json to_json(const Fields& fields);

}  // namespace tunesmith::cli
