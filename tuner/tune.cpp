#include "tuner/tune.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "tuner/acceptance.h"
#include "tuner/budget.h"
#include "tuner/candidate.h"
#include "tuner/compile_pool.h"
#include "tuner/contest.h"
#include "tuner/timing_arrays.h"
#include "tuner/verifier.h"
#include "tuner/worklist.h"
#include "tunesmith/version.h"

namespace tunesmith {
namespace {

/// Returns the part of the budget for compiling. The rest is for timing, and a quick contest needs little (contest.cpp).
double time_for_building_s(const TuneOptions& options) {
  constexpr double share = 0.5, quick_contest_s = 1.5;
  const double half_s = share * options.budget_s;
  return options.effort == Effort::quick ? std::max(half_s, options.budget_s - quick_contest_s) : half_s;
}

/// One call of tune(): the state that its stages share.
class TuningRun {
 public:
  TuningRun(const ParsedProblem& problem, const Workbench& bench, const TuneOptions& options)
      : problem_(problem.op().parse(problem.tuned_as())),
        small_(problem.op().parse(problem_->verification_problem())),
        bench_(bench),
        options_(options),
        budget_(options.budget_s, options.cancel, options.now_s) {}

  TuneResult run();

 private:
  /// Fills `candidates_` from `work_`, which has work.
  void list_candidates();
  std::unique_ptr<CompilePool> start_compiling();
  std::optional<TuningRecord> recorded_now() const { return bench_.cache.find_record(key_); }
  /// Waits for the device. Returns false if the key has another record than `before` then.
  bool wait_for_device(const std::optional<TuningRecord>& before);
  void build_and_verify(std::unique_ptr<CompilePool> pool);
  /// Takes the outcome of a candidate's compilation.
  void take(Candidate& candidate, Built built, std::exception_ptr failure, Verifier& verifier);
  void admit(Candidate& candidate, const Built& built, Verifier& verifier);
  std::unique_ptr<const Contest> hold_contest();
  TuningRecord make_record(const Contest& contest) const;
  void report(int done, const std::string& what) {
    if (options_.progress)
      options_.progress(done, static_cast<int>(candidates_.size()) + contest_rounds(options_.effort), what);
  }

  const ParsedProblemPtr problem_, small_;  // what is tuned, and what it is verified with
  const Workbench& bench_;
  const TuneOptions& options_;
  Budget budget_;
  TuningKey key_;
  Worklist work_;
  std::vector<Candidate> candidates_;  // the default first
  std::unique_ptr<TimingArrays> arrays_;
  TuneResult result_;
};

TuneResult TuningRun::run() {
  const DeviceInfo& device = bench_.device.info();
  if (device.kind == DeviceInfo::Kind::host)
    throw Error(ErrorCode::unsupported, "tuning needs a GPU; ", device.name,
                " is the host executor, which never claims a speed");
  const LaunchPlan plan = problem_->launch_plan(problem_->default_kernel_config(device), device);
  if (plan.kernels.empty())
    throw Error(ErrorCode::invalid_argument, "there is nothing to tune: ", problem_->problem().short_text(),
                " launches no kernel");

  key_ = tuning_key(*problem_, device, bench_.templates);
  const bool may_wait = options_.before_device && !options_.force;
  const std::optional<TuningRecord> before = may_wait ? recorded_now() : std::nullopt;
  work_ = plan_work(*problem_, bench_, key_, options_);
  result_.candidates = work_.candidates;
  if (work_.configs.empty()) {
    result_.record = *work_.record;
    result_.trials = work_.trials;
    result_.wall_s = budget_.elapsed_s();
    return std::move(result_);
  }
  list_candidates();
  budget_.check_wanted();
  std::unique_ptr<CompilePool> pool = start_compiling();
  if (options_.before_device && !wait_for_device(before)) {
    pool.reset();
    TuneOptions at_once = options_;
    at_once.before_device = {};
    return TuningRun(*problem_, bench_, at_once).run();
  }
  build_and_verify(std::move(pool));
  const std::unique_ptr<const Contest> contest = hold_contest();

  result_.record = make_record(*contest);
  const Built& winner = contest->winner()->built;
  result_.winner_compiled = !winner.from_cache;
  result_.winner_compile_ms = winner.binary.compile_ms;
  std::vector<Trial> trials;
  for (const Candidate& candidate : candidates_) {
    if (candidate.trial.status == "timed" || candidate.trial.status == "dropped") ++result_.timed;
    if (!candidate.trial.status.empty()) trials.push_back(candidate.trial);
  }
  budget_.check_wanted();
  for (const Candidate& candidate : candidates_)
    if (candidate.is_default || &candidate == contest->winner())
      keep_binary(problem_->op(), candidate.built, bench_.device.info().arch, bench_.compiler, bench_.cache);
  bench_.cache.store_record(result_.record, trials);
  if (const auto related = related_key(problem_->key(), key_)) {
    TuningRecord of_class = result_.record;
    of_class.key = *related;
    bench_.cache.store_record(of_class, {});
  }
  result_.trials = merge_trials(std::move(work_.trials), trials);
  result_.wall_s = budget_.elapsed_s();
  return std::move(result_);
}

void TuningRun::list_candidates() {
  for (const Config& config : work_.configs) {
    Candidate& candidate = candidates_.emplace_back();
    candidate.trial.config = config.text();
    candidate.config = problem_->configure(config);
  }
  candidates_.front().is_default = true;
}

std::unique_ptr<CompilePool> TuningRun::start_compiling() {
  const auto build = [this](std::size_t index) {
    return build_binary({*problem_, candidates_[index].config, bench_.templates}, bench_.device.info().arch, bench_.compiler,
                        bench_.cache, Keep::later);
  };
  return std::make_unique<CompilePool>(candidates_.size(), options_.jobs, build, options_.before_device != nullptr);
}

bool TuningRun::wait_for_device(const std::optional<TuningRecord>& before) {
  options_.before_device();
  budget_.restart();
  budget_.check_wanted();
  if (options_.force) return true;
  const std::optional<TuningRecord> after = recorded_now();
  return !after || (before && before->config == after->config && before->median_us == after->median_us);
}

void TuningRun::build_and_verify(std::unique_ptr<CompilePool> pool) {
  bool reported = false;
  const auto report_compiled = [&] {
    if (!std::exchange(reported, true) && options_.compiled) options_.compiled();
  };
  if (pool->is_finished()) report_compiled();
  // While the first ones compile.
  arrays_ = std::make_unique<TimingArrays>(problem_, bench_.device, options_.memory_cap_bytes, options_.seed);
  Verifier verifier(*small_, bench_.device, options_.seed);
  const double until_s = time_for_building_s(options_);
  bool default_is_known = false;
  for (std::size_t done = 0; done < candidates_.size();) {
    budget_.check_wanted();
    if (default_is_known && budget_.elapsed_s() > until_s) break;
    auto outcome = pool->next(std::chrono::milliseconds(20));
    if (pool->is_finished()) report_compiled();
    if (!outcome) continue;
    Candidate& candidate = candidates_[outcome->index];
    default_is_known = default_is_known || candidate.is_default;
    take(candidate, std::move(outcome->built), outcome->failure, verifier);
    report(static_cast<int>(++done), candidate.trial.status.empty() ? "verified" : candidate.trial.status);
  }
  pool.reset();
  report_compiled();
}

void TuningRun::take(Candidate& candidate, Built built, std::exception_ptr failure, Verifier& verifier) {
  if (failure == nullptr) {
    if (!built.from_cache) ++result_.compiled;
    result_.compile_s += built.binary.compile_ms / 1000;
    candidate.built = std::move(built);
    admit(candidate, candidate.built, verifier);
    return;
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (candidate.is_default) throw;
    // Without a compiler the candidate was not looked at: it stays open for the next run.
    if (error.code() != ErrorCode::no_compiler) candidate.settle("compile_failed", error.what());
  }
}

std::unique_ptr<const Contest> TuningRun::hold_contest() {
  auto contest = std::make_unique<Contest>(bench_.device, arrays_->addresses(), budget_, options_);
  contest->run(candidates_,
               [&](int round, const std::string& what) { report(static_cast<int>(candidates_.size()) + round, what); });
  return contest;
}

// Binds a candidate that passes the checks to the timed problem; settles others with the reason.
void TuningRun::admit(Candidate& candidate, const Built& built, Verifier& verifier) {
  if (const std::string reason = why_not_worth_timing(*problem_, candidate.config, built.binary); !reason.empty()) {
    if (!candidate.is_default) return candidate.settle("rejected", reason);
    candidate.trial.reason = reason;  // the default is what is launched without tuning: it competes, and its trial says so
  }
  Device& device = bench_.device;
  try {
    const std::shared_ptr<Module> module = device.load(built.binary);
    LaunchPlan plan = arrays_->problem().launch_plan(candidate.config, device.info());
    for (const KernelLaunch& kernel : plan.kernels)
      if (module->occupancy(kernel) == 0)
        throw Error(ErrorCode::unsupported, "kernel ", kernel.entry, " does not fit on a multiprocessor");
    const CheckResult check =
        verifier.check(Executable(device, module, small_->launch_plan(candidate.config, device.info())));
    if (!check.passed) {
      if (candidate.is_default)
        throw Error(ErrorCode::verification_failed, "the default configuration ", candidate.config.text(), " of ",
                    problem_->problem().short_text(), " is wrong: ", check.first_failure);
      candidate.settle("wrong", check.first_failure);
      return;
    }
    candidate.executable = std::make_unique<const Executable>(device, module, std::move(plan));
    ++result_.verified;
  } catch (const Error& error) {
    if (candidate.is_default) throw;
    require_working(device, "configuration " + candidate.config.text(), error.what());
    candidate.settle(error.code() == ErrorCode::unsupported ? "rejected" : "launch_failed", error.what());
  }
}

TuningRecord TuningRun::make_record(const Contest& contest) const {
  const Candidate& winner = *contest.winner();
  TuningRecord record;
  record.key = key_;
  record.config = winner.config.text();
  record.median_us = winner.trial.median_us;
  record.mad_us = winner.trial.mad_us;
  record.default_median_us = candidates_.front().trial.median_us;
  if (const Cost cost = arrays_->problem().cost(); cost.overcounted.empty()) record.bytes = cost.bytes();
  record.problem = arrays_->problem().problem().text();
  const bool was_full = work_.record && work_.record->effort == name(Effort::full);
  record.effort = was_full ? name(Effort::full) : name(options_.effort);
  record.provenance = bench_.device.provenance();
  record.provenance["tunesmith"] = TUNESMITH_VERSION;
  try {
    record.provenance["compiler"] = bench_.compiler.identity();
  } catch (const Error&) {  // every binary came from the cache
    record.provenance["compiler"] = "none";
  }
  record.provenance["samples"] = std::to_string(winner.trial.samples);
  if (!contest.drift().empty()) record.provenance["drift"] = contest.drift();
  if (const std::string cause = contest.disturbance(); !cause.empty()) record.provenance["disturbed"] = cause;
  if (contest.repeats() > 0) record.provenance["repeats"] = std::to_string(contest.repeats());
  record.created_unix_s = static_cast<std::int64_t>(std::time(nullptr));
  return record;
}

}  // namespace

TuneResult tune(const ParsedProblem& problem, const Workbench& bench, const TuneOptions& options) {
  return TuningRun(problem, bench, options).run();
}

}  // namespace tunesmith
