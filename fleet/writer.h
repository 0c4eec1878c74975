#pragma once
// Writes to the server in the background, so that nobody waits for them.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "fleet/breaker.h"
#include "fleet/client.h"
#include "fleet/counters.h"

namespace tunesmith::fleet {

/// Thread-safe.
class Writer {
 public:
  /// Waiting writes; beyond it, the oldest are dropped.
  static constexpr std::size_t max_bytes = std::size_t{64} << 20;
  static constexpr Milliseconds operation_limit{500}, flush_limit{500};

  Writer(const RemoteUrl& url, Counters& counters, std::function<void(const std::string&)> warn,
         std::function<void(const Counts&)> save_counts);
  /// Completes pending writes, for at most flush_limit and the operation under way.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  using Work = std::function<void(Client& client, Deadline deadline)>;
  /// Adds a write, tried again until the server answers. `bytes` is its approximate size.
  void add(Work work, std::size_t bytes);
  /// Repeats `work` until stop_repeating() of the number that it returns.
  std::uint64_t repeat(Milliseconds interval, Work work);
  void stop_repeating(std::uint64_t number);
  /// Waits until all writes are done; returns false if that takes longer than `limit`.
  bool flush(Milliseconds limit);

 private:
  struct Job {
    Work work;
    std::size_t bytes = 0;
  };
  struct Repeated {
    Work work;
    Milliseconds interval;
    Deadline next;
  };

  void run();
  Deadline next_wake() const;
  /// Calls work without the lock; returns false if it should be tried again.
  bool try_work(std::unique_lock<std::mutex>& lock, const Work& work);
  void start();

  const RemoteUrl url_;
  Counters& counters_;
  const std::function<void(const std::string&)> warn_;
  const std::function<void(const Counts&)> save_counts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::size_t waiting_bytes_ = 0;
  std::map<std::uint64_t, Repeated> repeated_;
  std::uint64_t last_number_ = 0;
  bool is_working_ = false, is_stopping_ = false;
  Deadline stop_at_{};
  Breaker breaker_;
  Deadline next_save_{};
  std::unique_ptr<Client> client_;  // of the thread
  std::thread thread_;
};

}  // namespace tunesmith::fleet
