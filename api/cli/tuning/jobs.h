#pragma once
// Problems as jobs of a queue: adding them, waiting for them, working on them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/cli/tuning/pending_tuning.h"
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
/// Throws Error(invalid_argument) for a text that job_payload() did not write, such as a job of another version.
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
  bool ahead = true;        ///< the next job compiles while one is measured
  /// A job whose worker was not heard of for this time is taken over.
  fleet::Milliseconds patience{0};
};

/// How a worker handles jobs.
struct Work {
  std::function<std::unique_ptr<PendingTuning>(const TuningJob&)> start;
  std::function<void()> publish;  ///< after each tuning: puts the results on the server. Throws Error
};

/// Takes jobs and tunes each, until an interrupt. Jobs end in the order in which they were taken. Renews the claims of the
/// measured job and of the next one; after an interrupt, gives the next one back.
QueueOutcome work_on(fleet::Queue& queue, const WorkSettings& settings, const Work& work);

}  // namespace tunesmith::cli
