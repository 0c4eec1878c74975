#include "fleet/breaker.h"

namespace tunesmith::fleet {
namespace {

std::function<double()> random_factor() {
  return [generator = std::minstd_rand(std::random_device{}()),
          factor = std::uniform_real_distribution(0.75, 1.25)]() mutable { return factor(generator); };
}

}  // namespace

Breaker::Breaker(std::function<Deadline()> now, std::function<double()> jitter)
    : now_(std::move(now)), jitter_(jitter ? std::move(jitter) : random_factor()) {}

Breaker::State Breaker::state() const {
  if (!is_open_) return State::closed;
  return now_() >= until_ ? State::probe : State::open;
}

void Breaker::failed() {
  is_open_ = true;
  until_ = now_() + std::chrono::duration_cast<Milliseconds>(next_pause_ * jitter_());
  next_pause_ = std::min(2 * next_pause_, longest_pause);
}

void Breaker::succeeded() {
  is_open_ = false;
  next_pause_ = first_pause;
}

}  // namespace tunesmith::fleet
