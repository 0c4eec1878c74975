#include "fleet/writer.h"

#include <algorithm>
#include <system_error>

#include "fleet/protocol/error.h"

namespace tunesmith::fleet {
namespace {

constexpr Milliseconds save_interval{5000};

}  // namespace

Writer::Writer(const RemoteUrl& url, Counters& counters, std::function<void(const std::string&)> warn,
               std::function<void(const Counts&)> save_counts)
    : url_(url), counters_(counters), warn_(std::move(warn)), save_counts_(std::move(save_counts)) {}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    stop_at_ = after(flush_limit);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (!jobs_.empty()) counters_.add("writes_dropped_total", jobs_.size());
  save_counts_(counters_.take_new());
}

void Writer::start() {
  if (!thread_.joinable()) try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // the next write tries again; what waits is counted as dropped at the end
    }
  changed_.notify_all();
}

void Writer::add(Work work, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back({std::move(work), bytes});
  waiting_bytes_ += bytes;
  // The first one may be under way.
  while (waiting_bytes_ > max_bytes && jobs_.size() > 2) {
    waiting_bytes_ -= jobs_[1].bytes;
    jobs_.erase(jobs_.begin() + 1);
    counters_.add("writes_dropped_total");
  }
  start();
}

std::uint64_t Writer::repeat(Milliseconds interval, Work work) {
  const std::lock_guard lock(mutex_);
  repeated_[++last_number_] = {std::move(work), interval, after(interval)};
  start();
  return last_number_;
}

void Writer::stop_repeating(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  repeated_.erase(number);
}

bool Writer::flush(Milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, after(limit), [&] { return jobs_.empty() && !is_working_; });
}

Deadline Writer::next_wake() const {
  Deadline next = next_save_;
  for (const auto& [number, repeated] : repeated_) next = std::min(next, repeated.next);
  if (!jobs_.empty())
    next = std::min(next, breaker_.state() == Breaker::State::open ? after(Milliseconds(200)) : Clock::now());
  return next;
}

bool Writer::try_work(std::unique_lock<std::mutex>& lock, const Work& work) {
  const Deadline limit = is_stopping_ ? std::min(stop_at_, after(operation_limit)) : after(operation_limit);
  is_working_ = true;
  lock.unlock();
  std::optional<RemoteError> failure;
  try {
    if (!client_) client_ = Client::open(url_, limit);
    work(*client_, limit);
  } catch (const RemoteError& error) {
    failure = error;
  } catch (const std::exception& error) {  // out of memory, or a value that is too large: trying again does not help
    failure.emplace(Failure::rejected, error.what());
  }
  if (failure && failure->failure() != Failure::rejected) client_.reset();
  lock.lock();
  is_working_ = false;
  if (!failure) {
    breaker_.succeeded();
    return true;
  }
  counters_.add("errors_total{kind=\"" + std::string(name(failure->failure())) + "\"}");
  warn_("cannot write to " + url_.address() + ": " + failure->what());
  if (failure->failure() == Failure::rejected) {
    counters_.add("writes_dropped_total");
    return true;
  }
  breaker_.failed();
  return false;
}

void Writer::run() {
  std::unique_lock lock(mutex_);
  next_save_ = after(save_interval);
  while (true) {
    if (is_stopping_ && (jobs_.empty() || Clock::now() >= stop_at_)) break;
    if (!is_stopping_ && Clock::now() >= next_save_) {
      next_save_ = after(save_interval);
      lock.unlock();
      save_counts_(counters_.take_new());
      lock.lock();
    }
    const auto due = std::ranges::find_if(repeated_, [](const auto& item) { return item.second.next <= Clock::now(); });
    if (due != repeated_.end() && !is_stopping_) {
      due->second.next = after(due->second.interval);
      const Work work = due->second.work;
      try_work(lock, work);
      continue;
    }
    if (!jobs_.empty() && breaker_.state() != Breaker::State::open) {
      const Work work = jobs_.front().work;
      if (try_work(lock, work)) {
        waiting_bytes_ -= jobs_.front().bytes;
        jobs_.pop_front();
      }
      changed_.notify_all();
      continue;
    }
    // While stopping with an open breaker, nothing can be written.
    if (is_stopping_) break;
    changed_.wait_until(lock, next_wake());
  }
}

}  // namespace tunesmith::fleet
