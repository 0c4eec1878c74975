#include "api/cli/tuning/pending_tuning.h"

#include <utility>

namespace tunesmith::cli {

PendingTuning::PendingTuning(TuneRequest request, TuneOne tune_one)
    : request_(std::move(request)), tune_one_(std::move(tune_one)) {
  request_.turn = &turn_;
  request_.compiled = [this] { finish(compiled_); };
  request_.stop = [this] { return unwanted_.load(); };
  thread_ = std::thread([this] {
    try {
      answer_ = tune_one_(request_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    finish(ended_);
  });
}

PendingTuning::~PendingTuning() {
  unwanted_ = true;
  turn_.give();
  thread_.join();
}

void PendingTuning::wait_until_compiled() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return compiled_ || ended_; });
}

bool PendingTuning::is_compiled() {
  const std::lock_guard lock(mutex_);
  return compiled_ || ended_;
}

bool PendingTuning::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return ended_; });
}

Json PendingTuning::answer() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_; });
  if (failure_) std::rethrow_exception(failure_);
  return answer_;
}

void PendingTuning::finish(bool& step) {
  const std::lock_guard lock(mutex_);
  step = true;
  changed_.notify_all();
}

}  // namespace tunesmith::cli
