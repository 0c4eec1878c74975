#pragma once
// The results of `tunesmith run`, as a table and as JSON.

#include <optional>
#include <string>

#include "api/cli/report/measure.h"
#include "api/cli/tuning/tune_child.h"
#include "templates/op.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

struct RunReport {
  Problem problem;
  std::string shipped_program{};  ///< the name by which a shipped row program was called; empty for other operations
  DeviceInfo device;
  Config config;
  Origin origin = Origin::by_default;
  std::int64_t nearest_n_cols = 0;
  bool compiled = false;  ///< by this command; tuning in a child process is part of it
  double compile_ms = 0;
  bool launched = false;  ///< false if there are no rows, so nothing to do
  int occupancy = 0;
  std::string resources;
  Json tuning;  ///< of this run; null if nothing was tuned
  std::optional<Measurement> measurement;
  Cost cost;  ///< of one launch
  CheckResult check;
  std::map<std::string, std::string> outputs;  ///< files written, by array
};

/// Returns whether arithmetic rather than memory limits the work on every GPU.
bool is_compute_bound(const Cost& cost) noexcept;

/// Sets whether this command compiled the plan's binary: in this process, or in the child process that tuned
/// (report.tuning).
void report_binary(RunReport& report, const Plan& plan);

std::string to_table(const RunReport& report);
Json to_json(const RunReport& report);

}  // namespace tunesmith::cli
