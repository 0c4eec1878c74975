#include "tuner/rounds.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "tuner/statistics.h"

namespace tunesmith {
namespace {

// Short enough to notice a cancellation, long enough that taking the measuring lock costs nothing.
constexpr std::size_t candidates_per_call = 32;

/// Returns whether a kernel leaves lines in L2 that a flush does not evict, until the next call of Device::time_us.
bool keeps_lines(const Candidate* candidate) {
  const Value* const load = candidate->config.config().fields.find("load");
  return load != nullptr && *load == Value("evict_last");
}

std::string ratio_text(double ratio, int rounds) {
  std::ostringstream text;
  text.precision(3);
  text << ratio << " times the fastest after " << rounds << " rounds";
  return text.str();
}

}  // namespace

void require_working(Device& device, const std::string& culprit, const std::string& failure) {
  try {
    device.synchronize(nullptr);
  } catch (const Error&) {
    throw Error(ErrorCode::device_failed, culprit, " made the device unusable: ", failure);
  }
}

Rounds::Rounds(Device& device, std::span<void* const> arrays, const Budget& budget, std::uint64_t seed)
    : device_(device), arrays_(arrays), budget_(budget), random_(seed) {}

void Rounds::warm_up(std::vector<Candidate*>& candidates, double until_s) {
  candidates.resize(std::max<std::size_t>(pass(candidates, until_s), 1));
  std::erase_if(candidates, [](const Candidate* candidate) { return !candidate->is_live(); });
  for (Candidate* candidate : candidates) candidate->samples_us.clear();
}

bool Rounds::sample(std::vector<Candidate*>& candidates, double until_s) {
  std::vector<Candidate*> order = candidates;
  std::ranges::shuffle(order, random_);
  std::ranges::stable_partition(order, std::not_fn(keeps_lines));
  const bool complete = pass(order, until_s) == order.size();
  std::erase_if(candidates, [](const Candidate* candidate) { return !candidate->is_live(); });
  return complete;
}

std::size_t Rounds::pass(std::span<Candidate* const> order, double until_s) {
  std::size_t reached = 0;
  while (reached < order.size()) {
    budget_.check_wanted();
    if (budget_.elapsed_s() >= until_s) break;
    const auto rest = order.subspan(reached, std::min(candidates_per_call, order.size() - reached));
    // Candidates that keep lines have calls of their own: others would find a part of the arrays in L2.
    const auto different =
        std::ranges::find_if(rest, [&](const Candidate* each) { return keeps_lines(each) != keeps_lines(rest[0]); });
    const auto count = static_cast<std::size_t>(different - rest.begin());
    time_together(rest.first(count));
    reached += count;
  }
  return reached;
}

void Rounds::time_together(std::span<Candidate* const> candidates) {
  std::vector<std::function<void(Stream)>> works;
  works.reserve(candidates.size());
  for (const Candidate* candidate : candidates)
    works.emplace_back([this, candidate](Stream stream) { candidate->executable->enqueue(arrays_, stream); });
  std::vector<double> times_us;
  try {
    times_us = device_.time_us(works, true);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported || error.code() == ErrorCode::cancelled) throw;
    require_working(device_, "one of " + std::to_string(candidates.size()) + " configurations timed together", error.what());
    for (Candidate* candidate : candidates) time_alone(*candidate);  // one of them failed
    return;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i]->samples_us.push_back(times_us.at(i));
}

void Rounds::time_alone(Candidate& candidate) {
  const std::function<void(Stream)> work = [&](Stream stream) { candidate.executable->enqueue(arrays_, stream); };
  try {
    candidate.samples_us.push_back(device_.time_us(std::span(&work, 1), true).at(0));
  } catch (const Error& error) {
    if (candidate.is_default) throw;
    require_working(device_, "configuration " + candidate.config.text(), error.what());
    candidate.settle("launch_failed", error.what());
  }
}

void drop_slow(std::vector<Candidate*>& candidates, const DropRule& rule) {
  double best_us = std::numeric_limits<double>::infinity();
  for (const Candidate* candidate : candidates) best_us = std::min(best_us, median(candidate->samples_us));
  std::erase_if(candidates, [&](Candidate* candidate) {
    const Timing timing = summarize(candidate->samples_us);
    if (candidate->is_default || timing.median_us - noise_us(timing) <= rule.ratio * best_us) return false;
    candidate->settle_timed("dropped");
    candidate->settle("dropped", ratio_text(timing.median_us / best_us, timing.samples));
    return true;
  });
}

}  // namespace tunesmith
