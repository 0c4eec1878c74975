#pragma once
// Which configuration the plans of an engine use. config_choices.cpp selects it: a record of the cache, the kernel of a
// bucket of widths, the default. config_choices_tuning.cpp tunes on first use. Internal.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/dispatch/single_flight.h"
#include "api/engine/parts.h"
#include "api/engine/plan_request.h"
#include "api/engine/plan_state.h"
#include "tuner/phases.h"
#include "tuner/select.h"
#include "tuner/tune_share.h"

namespace tunesmith {

class TuningReport;

/// Counts approximately: uses at the same time may count once.
class UseCounter {
 public:
  /// Returns the number of uses with this one.
  std::uint32_t add() noexcept {
    const std::uint32_t now = uses_.load(std::memory_order_relaxed) + 1;
    uses_.store(now, std::memory_order_relaxed);
    return now;
  }

 private:
  std::atomic<std::uint32_t> uses_{0};
};

/// The known facts about a tuning key. Immutable except for its uses.
struct KeyChoice {
  std::vector<KnownRecord> records;  ///< in the order of preference
  bool pending = false;              ///< not tuned yet, but it should be
  bool by_capacity = false;          ///< its problems run in the kernel for their bucket of n_cols
  std::string key{};                 ///< of by_capacity: text of the tuning key
  mutable UseCounter uses{};         ///< of by_capacity
};

/// The selected configuration of a plan, and the cost of selecting it.
struct Choice {
  Selection selection;
  double tune_s = 0;
  double compile_ms = 0;                 ///< of all candidates that the tuner compiled
  std::shared_ptr<const KeyChoice> key;  ///< null if the choice did not depend on records
};

/// Thread-safe. If several threads ask for the same tuning key, one reads the cache and tunes, and the others wait.
class ConfigChoices {
 public:
  explicit ConfigChoices(Engine::Parts& parts);

  /// Selects a configuration. In mode tune, a key without a record is tuned if the engine's share of time allows it, by one
  /// process at a time; otherwise, and in mode later, the nearest record or the default is used and the key is remembered
  /// as pending. A failure while tuning is logged once. Throws Error(verification_failed), because it means that the default
  /// itself is wrong, and the exceptions of EngineOptions::progress.
  Choice choose(const PlanRequest& request, Phases& phases);

  /// Starts tuning that is no plan's own, such as of a library's matrix product, if the engine's share of time allows it.
  std::optional<TuneShare::Run> try_start_tuning() { return share_.try_start(); }

  /// Counts a use of a plan with counts_uses. Returns true if its n_cols is used often enough for a kernel of its own and
  /// `stream` is not being captured: the plan is forgotten then, and the next choose() for its problem selects that kernel.
  bool outgrows_capacity(const Plan::State& plan, Stream stream);

  /// Tunes pending keys until `budget_s` seconds have passed, at least one. Returns the number of keys tuned.
  std::size_t tune_pending(double budget_s);

  TuningStatus status() const;

 private:
  using Known = std::shared_ptr<const KeyChoice>;

  /// The preparation for a key without records.
  enum class Due : std::uint8_t {
    if_allowed,  ///< tuning if the share allows it, else the kernel of its bucket
    exact,       ///< a kernel of its own, tuned if the share allows it
    tuned,       ///< tuning
  };

  /// Reads the records of a key; tunes it if that is due.
  Known find(const PlanRequest& request, const std::string& key, Due due, Phases& phases, std::optional<Tuned>& tuned);
  /// Returns whether a problem used this many times gets a kernel of its own.
  bool is_often(std::uint32_t uses) const noexcept;
  /// Returns the configuration for the bucket of n_cols of the problem, made once for each capacity() and capacity_class().
  KernelConfig capacity_config(const ParsedProblem& problem);
  /// Selects from records, or the default. A default that equals the operation's last one is that one, whose named values
  /// are written.
  Selection select_from(const ParsedProblem& problem, const std::vector<KnownRecord>& records);
  /// Returns whether the cache has records for this n_cols and problem class. Asks the cache once for each class.
  bool has_records(const ParsedProblem& problem);
  /// Tunes in this process or in a child process.
  std::optional<Tuned> tune_where(const PlanRequest& request, TuningReport& report);
  /// Returns nothing if tuning failed or was not possible. Throws the exceptions of EngineOptions::progress.
  std::optional<Tuned> tune(const PlanRequest& request, const std::string& key);
  /// Waits, in mode tune and unless `force` is set, for another process that tunes the key; then reads the records again.
  /// Returns nothing if this process should not tune.
  std::optional<WorkClaim> claim_tuning(const PlanRequest& request, const TuningKey& tuning, bool force, KeyChoice& known);
  /// Claims the key among the hosts that share a remote cache; with the claim, reads the records again.
  Cache::HostClaim claim_on_hosts(const PlanRequest& request, const TuningKey& tuning, KeyChoice& known);
  void remember_pending(const PlanRequest& request, const std::string& key);
  void report_share();
  /// Forgets plans that were made without the result for this key.
  void forget_plans_of(const Known& known);

  Engine::Parts& parts_;
  TuneShare share_;
  SingleFlight<Known> keys_;
  SingleFlight<KernelConfig> capacities_;                                 // by operation, capacity() and capacity_class()
  SingleFlight<std::shared_ptr<const std::set<std::int64_t>>> recorded_;  // n_cols, by operation and problem class
  std::atomic<bool> reported_stale_{false}, reported_share_{false}, reported_claim_{false};

  mutable std::mutex mutex_;
  std::map<std::string, PlanRequest> pending_;
  std::map<const Op*, KernelConfig> last_defaults_;
  TuningStatus status_;
  bool reported_failure_ = false;
};

}  // namespace tunesmith
