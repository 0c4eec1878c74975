#pragma once
// A queue of problems to tune: hosts without a GPU add jobs, workers with one take them.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fleet/protocol/deadline.h"
#include "fleet/remote_url.h"

namespace tunesmith::fleet {

/// The state of a job.
struct JobState {
  enum class Kind : std::uint8_t { unknown, waiting, running, done, dead };
  Kind kind = Kind::unknown;
  std::string text;  ///< running: the worker. dead: the error
};

struct Job {
  std::string id;
  std::string payload;  ///< what add() was given
  int deliveries = 1;   ///< this one included
};

/// How a job ended.
struct JobResult {
  enum class Kind : std::uint8_t {
    done,
    hopeless,  ///< it would fail again, on any worker
    failed,    ///< another try may help
  };
  Kind kind = Kind::done;
  std::string error;
};

/// One queue on the server. With keys, jobs are signed and only jobs of trusted keys are taken, because a job may contain
/// source code that the worker runs. Not thread-safe. All calls throw Error(io) if the server cannot be used.
class Queue {
 public:
  /// Deliveries after which a job is dead.
  static constexpr int max_deliveries = 3;

  Queue(const RemoteUrl& url, std::string name);
  ~Queue();
  Queue(Queue&&) noexcept;
  Queue& operator=(Queue&&) = delete;

  /// Adds a job unless an equal one waits or runs. Returns its id.
  std::string add(const std::string& payload);
  JobState state(const std::string& id);

  /// Takes a job: first one whose worker has not ended it for `patience`, else a new one. Waits for a new one for at most
  /// `wait`. Jobs that cannot be trusted, and those that failed max_deliveries times, become dead letters and are not
  /// returned.
  std::optional<Job> take(const std::string& worker, Milliseconds patience, Milliseconds wait);
  /// Renews the claim on a job that take() returned: other workers leave it alone for another patience. `begun`: false while
  /// the job only waits, so that a delivery that ends before it began does not count. Returns false if another worker has
  /// taken it over, or ended it.
  bool renew(const Job& job, bool begun);
  /// Puts back a job that has not begun. Any worker may take it at once, and this delivery does not count.
  void give_back(const Job& job);
  /// Ends a job that take() returned. A failed one is delivered again after the patience of a worker.
  void finish(const Job& job, const JobResult& result);
  /// Returns the number of jobs that wait or run.
  std::int64_t size();
  /// Reports whether jobs may contain source code: they are signed.
  bool is_signed() const;

  struct DeadLetter {
    std::string id, payload, error;
  };
  /// Lists the dead letters, newest first.
  std::vector<DeadLetter> dead_letters();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tunesmith::fleet
