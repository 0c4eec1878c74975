#pragma once
// Problems as jobs of a queue: adding them, waiting for them, working on them.

#include <functional>
#include <string>
#include <vector>

#include "api/cli/tuning/prewarm_spec.h"
#include "fleet/queue.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

/// How a problem of a job is tuned.
struct JobSettings {
  Effort effort = Effort::full;
  double budget_s = 10;
};

struct TuningJob {
  SpecProblem asked;
  JobSettings settings;
};

std::string job_payload(const Problem& problem, const JobSettings& settings);
/// Throws Error(invalid_argument) for anything but what job_payload() wrote, such as a job of another version.
TuningJob parse_job(const std::string& payload);

struct QueueOutcome {
  int done = 0;
  std::vector<std::string> errors;  ///< of dead jobs, one line each
  bool interrupted = false;
};

/// Waits until all jobs are done or dead. Reports progress on stderr.
QueueOutcome wait_for_jobs(fleet::Queue& queue, const std::vector<std::string>& ids);

struct WorkSettings {
  std::string worker;       ///< name of this worker
  bool until_idle = false;  ///< end when no job waits or runs
  /// A job that its worker did not end in this time is taken over.
  fleet::Milliseconds patience{0};
};

/// Takes jobs and calls `tune` for each, until an interrupt. `tune` throws Error if it fails.
QueueOutcome work_on(fleet::Queue& queue, const WorkSettings& settings, const std::function<void(const TuningJob&)>& tune);

}  // namespace tunesmith::cli
