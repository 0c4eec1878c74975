#pragma once
// The connection that lookups share. A thread of its own opens it, so that lookups wait for a limited time only.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "fleet/breaker.h"
#include "fleet/client.h"
#include "fleet/counters.h"
#include "fleet/protocol/error.h"

namespace tunesmith::fleet {

/// Thread-safe.
class ReadConnection {
 public:
  /// `warn` receives each error; it may be called from any thread.
  ReadConnection(const RemoteUrl& url, Counters& counters, std::function<void(const std::string&)> warn);
  /// Waits for a connection attempt that is under way.
  ~ReadConnection();
  ReadConnection(const ReadConnection&) = delete;
  ReadConnection& operator=(const ReadConnection&) = delete;

  using Question = std::function<void(Client& client, Deadline deadline)>;
  /// Asks the server. Returns false if there is no answer: the breaker is open, no connection could be made in time, the
  /// connection is busy for `limit`, or `question` threw RemoteError. Waits at most `limit` and, the first time, for the
  /// connection.
  bool ask(Milliseconds limit, const Question& question);

 private:
  enum class Outcome : std::uint8_t { answered, unanswered, stale };
  /// stale: the server had closed the connection since it was last used.
  Outcome try_ask(Milliseconds limit, const Question& question);
  bool wait_for_client(std::unique_lock<std::mutex>& lock);
  void want_client();
  void fail(const RemoteError& error);
  void connect_when_wanted();

  const RemoteUrl url_;
  Counters& counters_;
  const std::function<void(const std::string&)> warn_;

  std::mutex mutex_;  // guards all below; not locked while the server is asked
  std::condition_variable changed_;
  Breaker breaker_;
  std::unique_ptr<Client> client_;
  bool is_busy_ = false;    // a thread uses client_
  bool is_used_ = false;    // client_ has answered before
  bool is_wanted_ = false;  // a new client_
  bool is_stopping_ = false;
  std::thread connector_;
};

}  // namespace tunesmith::fleet
