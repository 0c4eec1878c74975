// A worker of a queue: takes jobs and tunes them. While one is measured, the next one compiles.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "api/cli/tuning/interrupt.h"
#include "api/cli/tuning/jobs.h"
#include "api/engine/tune_apart.h"
#include "templates/op.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto idle_wait = 1000ms, look_every = 100ms, ask_every = 300ms;
constexpr auto server_pause = 5s;  // after an error from the server

/// Errors that another attempt or another worker would not avoid.
bool is_hopeless(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
    case ErrorCode::compile_failed:
    case ErrorCode::verification_failed: return true;
    default: return false;
  }
}

/// A job that was taken.
struct Taken {
  fleet::Job job;
  std::string what;
  std::unique_ptr<PendingTuning> tuning;  ///< null: it cannot be tuned
  std::optional<Error> why_not;
};

class Worker {
 public:
  Worker(fleet::Queue& queue, const WorkSettings& settings, const Work& work)
      : queue_(queue), settings_(settings), work_(work) {}

  QueueOutcome run() {
    std::optional<Taken> current;
    while (!interrupted()) {
      if (!current) current = take(idle_wait);
      if (!current) {
        if (settings_.until_idle && queue_.size() == 0) break;
        continue;
      }
      if (!queue_.renew(current->job, true)) {  // the job has waited for too long, and another worker has it
        current.reset();
        continue;
      }
      std::optional<Taken> next = wait_for(*current);
      end(*current);
      current = std::move(next);
    }
    if (current) give_back(*current);
    outcome_.interrupted = interrupted();
    return std::move(outcome_);
  }

 private:
  /// Takes a job and starts to compile it.
  std::optional<Taken> take(fleet::Milliseconds wait) {
    const std::optional<fleet::Job> job = queue_.take(settings_.worker, settings_.patience, wait);
    if (!job) return std::nullopt;
    Taken taken{*job, "job " + job->id, nullptr, {}};
    try {
      const TuningJob parsed = parse_job(job->payload);
      taken.what = parsed.asked.problem.short_text();
      if (!queue_.is_signed() && has_user_source(*find_op(parsed.asked.problem.op).parse(parsed.asked.problem)))
        throw Error(ErrorCode::invalid_argument, "jobs with user functions must be signed; add sign=FILE to the URL");
      taken.tuning = work_.start(parsed);
    } catch (const Error& error) {
      taken.why_not = error;
    }
    return taken;
  }

  void give_back(Taken& waiting) {
    waiting.tuning.reset();
    try {
      queue_.give_back(waiting.job);
    } catch (const Error&) {  // another worker takes the job over when the patience ends
    }
  }

  /// Gives a job its turn and waits until it has been measured. Returns the next one, which compiles meanwhile.
  std::optional<Taken> wait_for(Taken& current) {
    std::optional<Taken> next;
    if (!current.tuning) return next;
    current.tuning->give_turn();
    Clock::time_point renewed = Clock::now(), asked = renewed - ask_every;
    while (!current.tuning->wait_for(look_every)) {
      try {
        if (Clock::now() - renewed >= settings_.patience / 4) {
          renewed = Clock::now();
          queue_.renew(current.job, true);
          if (next && !queue_.renew(next->job, false)) next.reset();
        }
        const bool may_ask = settings_.ahead && !next && !interrupted() && current.tuning->is_compiled();
        if (may_ask && Clock::now() - asked >= ask_every) {
          asked = Clock::now();
          next = take(fleet::Milliseconds(0));
          if (next) queue_.renew(next->job, false);
        }
      } catch (const Error&) {  // the server may be back before the measurement ends
        asked = Clock::now() + server_pause;
      }
    }
    return next;
  }

  /// Publishes the result of a job and ends it.
  void end(Taken& taken) {
    fleet::JobResult result;
    try {
      if (taken.why_not) throw Error(*taken.why_not);
      taken.tuning->answer();
      work_.publish();
      ++outcome_.done;
    } catch (const Error& error) {
      result = {is_hopeless(error.code()) ? fleet::JobResult::Kind::hopeless : fleet::JobResult::Kind::failed, error.what()};
      outcome_.errors.push_back(taken.what + ": " + error.what());
    }
    queue_.finish(taken.job, result);
    std::fprintf(stderr, "tunesmith: %s: %s\n", taken.what.c_str(), result.error.empty() ? "done" : result.error.c_str());
  }

  fleet::Queue& queue_;
  const WorkSettings& settings_;
  const Work& work_;
  QueueOutcome outcome_;
};

}  // namespace

QueueOutcome work_on(fleet::Queue& queue, const WorkSettings& settings, const Work& work) {
  return Worker(queue, settings, work).run();
}

}  // namespace tunesmith::cli
