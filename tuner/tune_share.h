#pragma once
// How much of the time since its creation an engine may spend on tuning on first use.

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

namespace tunesmith {

/// Thread-safe. Tuning may start if the time spent, plus one more run of mean length, stays below `allowance_s` plus `share`
/// of the time since construction. So the last run does not exceed the bound by its whole time.
class TuneShare {
 public:
  /// `now_s` returns seconds from any origin and never goes back. A share of 1 or more means no bound.
  TuneShare(double share, double allowance_s, std::function<double()> now_s);

  /// One tuning run. Its time counts while it runs and after it.
  class Run {
   public:
    Run(TuneShare& owner, std::list<double>::iterator start) noexcept : owner_(&owner), start_(start) {}
    ~Run() {
      if (owner_ != nullptr) owner_->finish(start_);
    }
    Run(Run&& other) noexcept : owner_(other.owner_), start_(other.start_) { other.owner_ = nullptr; }
    Run& operator=(Run&&) = delete;

   private:
    TuneShare* owner_;
    std::list<double>::iterator start_;
  };

  /// Returns nothing if the share is used up.
  std::optional<Run> try_start();
  /// Starts whatever was spent.
  Run start();
  /// Whether try_start() would succeed.
  bool allows() const;
  double spent_s() const;
  double elapsed_s() const { return now_s_() - created_s_; }
  double share() const noexcept { return share_; }

 private:
  /// Returns the time spent; a run that has not ended counts as `min_s` at least.
  double spent_locked_s(double min_s) const;
  bool allows_locked() const;
  void finish(std::list<double>::iterator start);

  const double share_, allowance_s_;
  const std::function<double()> now_s_;
  const double created_s_;
  mutable std::mutex mutex_;
  double finished_s_ = 0;
  int finished_ = 0;
  std::list<double> running_;  // start times
};

}  // namespace tunesmith
