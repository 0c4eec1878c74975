#include "tuner/compile_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace tunesmith {

CompilePool::CompilePool(std::size_t count, int jobs, std::function<Built(std::size_t)> build, bool yielding)
    : build_(std::move(build)), count_(count), yielding_(yielding) {
  const std::size_t wanted = jobs > 0 ? static_cast<std::size_t>(jobs) : std::max(1u, std::thread::hardware_concurrency());
  const std::size_t threads = std::min(wanted, count);
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system's limit on threads: go on with those there are
      if (threads_.empty()) throw;
      break;
    }
  }
}

CompilePool::~CompilePool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

bool CompilePool::is_finished() const {
  const std::lock_guard lock(mutex_);
  return ended_ == count_;
}

void CompilePool::work() {
  constexpr int low_priority = 10;                            // a tenth of the time of a thread with the usual priority
  if (yielding_) setpriority(PRIO_PROCESS, 0, low_priority);  // on Linux: of this thread; without success all goes on
  while (true) {
    Outcome outcome;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || started_ == count_) return;
      outcome.index = started_++;
    }
    try {
      outcome.built = build_(outcome.index);
    } catch (...) {
      outcome.failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      outcomes_.push_back(std::move(outcome));
      ++ended_;
    }
    finished_.notify_one();
  }
}

std::optional<CompilePool::Outcome> CompilePool::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!finished_.wait_for(lock, timeout, [this] { return !outcomes_.empty(); })) return std::nullopt;
  Outcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

}  // namespace tunesmith
