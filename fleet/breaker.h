#pragma once
// A circuit breaker: after an error, the server is left alone for a second, then for twice as long after each further error.

#include <functional>
#include <random>

#include "fleet/protocol/deadline.h"

namespace tunesmith::fleet {

/// Not thread-safe.
class Breaker {
 public:
  static constexpr Milliseconds first_pause{1000}, longest_pause{60'000};

  /// `now` and `jitter` (a factor from 0.75 to 1.25) are replaced in tests.
  explicit Breaker(std::function<Deadline()> now = Clock::now, std::function<double()> jitter = {});

  /// closed: requests may be sent. open: not yet. probe: the pause is over; one request may find out.
  enum class State : std::uint8_t { closed, open, probe };
  State state() const;

  void failed();
  /// Closes the breaker. The next failure still waits longer than the last one: a server that accepts connections and then
  /// hangs would otherwise be asked every second.
  void probe_succeeded() { is_open_ = false; }
  /// A request was answered: the next pause is short again.
  void succeeded();

 private:
  std::function<Deadline()> now_;
  std::function<double()> jitter_;
  bool is_open_ = false;
  Deadline until_{};
  Milliseconds next_pause_ = first_pause;
};

}  // namespace tunesmith::fleet
