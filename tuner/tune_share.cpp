#include "tuner/tune_share.h"

#include <algorithm>
#include <utility>

namespace tunesmith {

TuneShare::TuneShare(double share, double allowance_s, std::function<double()> now_s)
    : share_(share), allowance_s_(allowance_s), now_s_(std::move(now_s)), created_s_(now_s_()) {}

double TuneShare::spent_locked_s(double min_s) const {
  double spent_s = finished_s_;
  const double now = running_.empty() ? 0 : now_s_();
  for (const double start : running_) spent_s += std::max(now - start, min_s);
  return spent_s;
}

bool TuneShare::allows_locked() const {
  if (share_ >= 1) return true;
  const double mean_s = finished_ == 0 ? 0 : finished_s_ / finished_;
  return spent_locked_s(mean_s) + mean_s < allowance_s_ + share_ * (now_s_() - created_s_);
}

std::optional<TuneShare::Run> TuneShare::try_start() {
  const std::lock_guard lock(mutex_);
  if (!allows_locked()) return std::nullopt;
  return Run(*this, running_.insert(running_.end(), now_s_()));
}

TuneShare::Run TuneShare::start() {
  const std::lock_guard lock(mutex_);
  return Run(*this, running_.insert(running_.end(), now_s_()));
}

void TuneShare::finish(std::list<double>::iterator start) {
  const std::lock_guard lock(mutex_);
  finished_s_ += now_s_() - *start;
  ++finished_;
  running_.erase(start);
}

bool TuneShare::allows() const {
  const std::lock_guard lock(mutex_);
  return allows_locked();
}

double TuneShare::spent_s() const {
  const std::lock_guard lock(mutex_);
  return spent_locked_s(0);
}

}  // namespace tunesmith
