#pragma once
// Which configuration the plans of an engine use: records of the cache, tuning on first use, defaults. Internal.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/dispatch/single_flight.h"
#include "api/engine/parts.h"
#include "api/engine/plan_request.h"
#include "tuner/phases.h"
#include "tuner/select.h"
#include "tuner/tune_share.h"

namespace tunesmith {

/// What is known about a tuning key. Immutable.
struct KeyChoice {
  std::vector<KnownRecord> records;  ///< in the order of preference
  bool pending = false;              ///< not tuned yet, but it should be
};

/// The selected configuration of a plan, and what selecting it cost.
struct Choice {
  Selection selection;
  double tune_s = 0;
  double compile_ms = 0;                 ///< of all candidates that the tuner compiled
  std::shared_ptr<const KeyChoice> key;  ///< null if it did not depend on records
};

/// Thread-safe. If several threads ask for the same tuning key, one reads the cache and tunes, and the others wait.
class ConfigChoices {
 public:
  explicit ConfigChoices(Engine::Parts& parts);

  /// Selects a configuration. In mode tune, a key without a record is tuned if the engine's share of time allows it, by one
  /// process at a time; otherwise, and in mode later, the nearest record or the default is used and the key is remembered
  /// as pending. Whatever fails while tuning
  /// is logged once; only Error(verification_failed) is thrown, because it means that the default itself is wrong.
  Choice choose(const PlanRequest& request, Phases& phases);

  /// Tunes pending keys until `budget_s` seconds have passed, at least one. Returns the number of keys tuned.
  std::size_t tune_pending(double budget_s);

  TuningStatus status() const;

 private:
  using Known = std::shared_ptr<const KeyChoice>;

  /// Reads the records of a key; tunes it if that is due.
  Known find(const PlanRequest& request, const std::string& key, bool force, Phases& phases, std::optional<Tuned>& tuned);
  /// Returns nothing if tuning failed or was not possible.
  std::optional<Tuned> tune(const PlanRequest& request);
  /// Waits, in mode tune and unless `force` is set, for another process that tunes the key; then reads the records again.
  /// Returns nothing if this process should not tune.
  std::optional<WorkClaim> claim_tuning(const PlanRequest& request, bool force, KeyChoice& known);
  void remember_pending(const PlanRequest& request, const std::string& key);
  void report_share();
  /// Forgets plans that were made without the result for this key.
  void forget_plans_of(const Known& known);

  Engine::Parts& parts_;
  TuneShare share_;
  SingleFlight<Known> keys_;
  std::atomic<bool> reported_stale_{false}, reported_share_{false}, reported_claim_{false};

  mutable std::mutex mutex_;
  std::map<std::string, PlanRequest> pending_;
  TuningStatus status_;
  bool reported_failure_ = false;
};

}  // namespace tunesmith
