#include "tuner/contest.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tuner/decide.h"

namespace tunesmith {
namespace {

/// Number of measurements: enough to tell candidates apart, in the time that the effort promises.
struct Schedule {
  int heat_rounds, final_rounds;
  double heat_s, final_s;  ///< wall time, at most
};

Schedule schedule(Effort effort, double left_s) {
  constexpr double share_for_heats = 0.7;
  if (effort == Effort::quick) return {10, 60, std::min(0.45, share_for_heats * left_s), 0.25};
  return {30, 100, share_for_heats * left_s, left_s};
}

constexpr std::array<DropRule, 3> drop_rules{{{3, 2.0}, {5, 1.2}, {8, 1.05}}};
constexpr int min_heat_rounds = 3;   // a median of fewer says nothing: the candidate stays open for the next run
constexpr int min_final_rounds = 5;  // whatever the budget: the default must be measured
constexpr std::size_t challengers = 4;
constexpr std::size_t drift_samples = 3;
constexpr double notable_drift = 0.1;
constexpr double notable_change = 0.05;  // between the halves of a final: more than the noise of most kernels
constexpr int max_repeats = 2;

std::vector<double> head(const std::vector<double>& samples) {
  return {samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(std::min(samples.size(), drift_samples))};
}

std::vector<double> tail(const std::vector<double>& samples) {
  return {samples.end() - static_cast<std::ptrdiff_t>(std::min(samples.size(), drift_samples)), samples.end()};
}

/// Returns whether times of one kernel changed between the first and the second half of them. Interleaving protects the
/// comparison from slow drift, but not from another process that takes the GPU for some of the rounds.
bool changed_meanwhile(const std::vector<double>& samples) {
  if (samples.size() < 2 * static_cast<std::size_t>(min_final_rounds)) return false;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  const double ratio = median({middle, samples.end()}) / median({samples.begin(), middle});
  return ratio > 1 + notable_change || ratio < 1 / (1 + notable_change);
}

}  // namespace

int contest_rounds(Effort effort) {
  const Schedule full = schedule(effort, 1);
  return 1 + full.heat_rounds + full.final_rounds;
}

Contest::Contest(Device& device, std::span<void* const> arrays, const Budget& budget, const TuneOptions& options)
    : device_(device), budget_(budget), options_(options), rounds_(device, arrays, budget, options.seed) {}

void Contest::run(std::vector<Candidate>& candidates, const std::function<void(int, const std::string&)>& progress) {
  progress_ = progress;
  std::vector<Candidate*> live;
  for (Candidate& candidate : candidates)
    if (candidate.is_live()) live.push_back(&candidate);
  heats(live);
  first_default_us_ = head(candidates.front().samples_us);
  std::vector<Candidate*> last = finalists(live);
  final(last);
}

void Contest::heats(std::vector<Candidate*>& live) {
  const double start_s = budget_.elapsed_s();
  const Schedule plan = schedule(options_.effort, budget_.total_s() - start_s);
  const double until_s = start_s + plan.heat_s;
  progress_(0, "warming up");
  // As many candidates as leave time for the rounds that a median needs.
  rounds_.warm_up(live, start_s + plan.heat_s / (1 + min_heat_rounds));
  disturbance_.observe(device_.conditions());  // of a GPU that works: an idle one has low clocks
  for (int round = 1; round <= plan.heat_rounds; ++round) {
    if (round > min_heat_rounds && live.size() <= challengers + 1) break;
    if (!rounds_.sample(live, until_s)) break;
    for (const DropRule& rule : drop_rules)
      if (rule.rounds == round) drop_slow(live, rule);
    progress_(round, std::to_string(live.size()) + " candidates in the running");
  }
  for (Candidate* candidate : live)
    if (static_cast<int>(candidate->samples_us.size()) >= min_heat_rounds) candidate->settle_timed("timed");
}

std::vector<Candidate*> Contest::finalists(const std::vector<Candidate*>& live) const {
  std::vector<Candidate*> chosen;
  for (Candidate* candidate : live)
    if (!candidate->is_default && !candidate->samples_us.empty()) chosen.push_back(candidate);
  std::ranges::stable_sort(chosen, {}, [](const Candidate* candidate) { return median(candidate->samples_us); });
  if (chosen.size() > challengers) chosen.resize(challengers);
  std::ranges::sort(chosen);  // the order of the search space: they are elements of one vector
  chosen.insert(chosen.begin(), live.front());
  return chosen;
}

// Fresh samples: the samples that brought a candidate into the final flatter it.
bool Contest::measure(std::vector<Candidate*>& finalists) {
  const double start_s = budget_.elapsed_s();
  const Schedule plan = schedule(options_.effort, budget_.total_s() - start_s);
  const double until_s = std::min(budget_.total_s(), start_s + plan.final_s);
  for (Candidate* candidate : finalists) candidate->samples_us.clear();
  const int total = contest_rounds(options_.effort);
  const std::string what = (repeats_ == 0 ? "final of " : "repeated final of ") + std::to_string(finalists.size());
  for (int round = 1; round <= plan.final_rounds; ++round) {
    if (round > min_final_rounds && budget_.elapsed_s() >= until_s) break;
    rounds_.sample(finalists, round <= min_final_rounds ? std::numeric_limits<double>::infinity() : until_s);
    progress_(repeats_ == 0 ? total - plan.final_rounds + round : total, what);
  }
  const bool others_changed = disturbance_.observe(device_.conditions());
  return changed_meanwhile(finalists.front()->samples_us) || others_changed;
}

void Contest::final(std::vector<Candidate*>& finalists) {
  disturbance_.observe(device_.conditions());
  while (measure(finalists) && repeats_ < max_repeats && budget_.elapsed_s() < budget_.total_s()) ++repeats_;
  std::vector<Timing> timings;
  for (Candidate* candidate : finalists) {
    candidate->settle_timed("timed");
    timings.push_back(summarize(candidate->samples_us));
  }
  winner_ = finalists[choose_winner(timings)];

  const Candidate& standard = *finalists.front();
  if (first_default_us_.empty()) first_default_us_ = head(standard.samples_us);
  const double change = median(tail(standard.samples_us)) / median(first_default_us_) - 1;
  if (std::fabs(change) > notable_drift)
    drift_ = (change > 0 ? "+" : "-") + std::to_string(std::lround(std::fabs(change) * 100)) + "%";
  progress_(contest_rounds(options_.effort), "done");
}

}  // namespace tunesmith
