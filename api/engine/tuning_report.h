#pragma once
// Passes the progress of tuning on to the caller of the engine. Internal.

#include <exception>
#include <string>

#include "tunesmith/engine.h"

namespace tunesmith {

/// The progress of tuning one problem. Used by one thread.
class TuningReport {
 public:
  TuningReport(const EngineOptions& options, const Problem& problem) : options_(options), problem_(problem) {}

  /// Reports a step. Throws the exceptions of EngineOptions::progress.
  void step(int done, int total, const std::string& what) { call({problem_, done, total, what, false}); }
  /// Reports the end, once. Throws like step().
  void finish() {
    if (!finished_) call({problem_, last_total_, last_total_, "done", true});
  }
  /// Reports the end of a tuning run that failed, unless it failed because the callback threw.
  void fail() {
    if (!thrown_) call({problem_, last_done_, last_total_, "failed", true});
  }
  /// Returns whether the callback threw, so that tuning stopped.
  bool is_cancelled() const noexcept { return thrown_ != nullptr; }
  /// Throws the callback's exception again.
  [[noreturn]] void rethrow() const { std::rethrow_exception(thrown_); }

 private:
  void call(const TuningProgress& progress) {
    last_done_ = progress.done;
    last_total_ = progress.total;
    finished_ = progress.finished;
    if (!options_.progress) return;
    try {
      options_.progress(progress);
    } catch (...) {
      thrown_ = std::current_exception();
      throw;
    }
  }

  const EngineOptions& options_;
  const Problem& problem_;
  int last_done_ = 0, last_total_ = 0;
  bool finished_ = false;
  std::exception_ptr thrown_;
};

}  // namespace tunesmith
