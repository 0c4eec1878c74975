#include "fleet/protocol/read_connection.h"

#include <system_error>

namespace tunesmith::fleet {

ReadConnection::ReadConnection(const RemoteUrl& url, Counters& counters, std::function<void(const std::string&)> warn)
    : url_(url), counters_(counters), warn_(std::move(warn)) {}

ReadConnection::~ReadConnection() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (connector_.joinable()) connector_.join();
}

void ReadConnection::want_client() {
  if (!connector_.joinable()) try {
      connector_ = std::thread([this] { connect_when_wanted(); });
    } catch (const std::system_error& error) {
      fail({Failure::connect, std::string("no thread: ") + error.what()});
      return;
    }
  is_wanted_ = true;
  changed_.notify_all();
}

void ReadConnection::connect_when_wanted() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || (is_wanted_ && !is_busy_); });
    if (is_stopping_) return;
    lock.unlock();
    std::unique_ptr<Client> client;
    std::optional<RemoteError> failure;
    try {
      client = Client::open(url_, after(url_.connect));
    } catch (const RemoteError& error) {
      failure = error;
    } catch (const std::exception& error) {  // out of memory, no thread for the resolver
      failure.emplace(Failure::connect, error.what());
    }
    lock.lock();
    is_wanted_ = false;
    is_used_ = false;
    client_ = std::move(client);
    if (failure)
      fail(*failure);
    else
      breaker_.probe_succeeded();
    changed_.notify_all();
  }
}

void ReadConnection::fail(const RemoteError& error) {
  breaker_.failed();
  counters_.add("errors_total{kind=\"" + std::string(name(error.failure())) + "\"}");
  counters_.add("breaker_opened_total");
  warn_("no answer from " + url_.address() + ": " + error.what());
}

bool ReadConnection::wait_for_client(std::unique_lock<std::mutex>& lock) {
  if (client_) return true;
  want_client();
  // The connector keeps its deadline; the allowance is for the thread's start.
  changed_.wait_until(lock, after(url_.connect + Milliseconds(3)), [&] { return !is_wanted_ || is_stopping_; });
  return client_ != nullptr;
}

ReadConnection::Outcome ReadConnection::try_ask(Milliseconds limit, const Question& question) {
  std::unique_lock lock(mutex_);
  const Breaker::State state = breaker_.state();
  if (state == Breaker::State::probe) want_client();  // for later lookups; none waits for it
  if (state != Breaker::State::closed) {
    counters_.add("skipped_total{why=\"breaker\"}");
    return Outcome::unanswered;
  }
  if (!wait_for_client(lock)) return Outcome::unanswered;
  const Deadline deadline = after(limit);
  if (!changed_.wait_until(lock, deadline, [&] { return !is_busy_; }) || !client_) {
    counters_.add("skipped_total{why=\"busy\"}");
    return Outcome::unanswered;
  }
  is_busy_ = true;
  const bool was_used = is_used_;
  const Deadline start = Clock::now();
  lock.unlock();
  std::optional<RemoteError> failure;
  try {
    question(*client_, deadline);
  } catch (const RemoteError& error) {
    failure = error;
  } catch (const std::exception& error) {  // out of memory
    failure.emplace(Failure::protocol, error.what());
  }
  lock.lock();
  is_busy_ = false;
  is_used_ = true;
  changed_.notify_all();
  counters_.add_latency(Clock::now() - start);
  if (!failure) {
    breaker_.succeeded();
    return Outcome::answered;
  }
  if (failure->failure() != Failure::rejected) client_.reset();
  if (failure->failure() == Failure::closed && was_used) return Outcome::stale;
  fail(*failure);
  return Outcome::unanswered;
}

bool ReadConnection::ask(Milliseconds limit, const Question& question) {
  Outcome outcome = try_ask(limit, question);
  if (outcome == Outcome::stale) outcome = try_ask(limit, question);
  return outcome == Outcome::answered;
}

}  // namespace tunesmith::fleet
