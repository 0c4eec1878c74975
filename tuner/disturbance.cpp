#include "tuner/disturbance.h"

#include <utility>

namespace tunesmith {
namespace {

constexpr double notable_clock_change = 0.05;  // of clocks, as of times in a final

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

/// Empty unless the clocks are known and changed notably.
std::string clock_change(const DeviceConditions& before, const DeviceConditions& after) {
  const auto falls = [](const DeviceConditions& from, const DeviceConditions& to) {
    return to.sm_clock_mhz > 0 && to.sm_clock_mhz < (1 - notable_clock_change) * from.sm_clock_mhz;
  };
  const bool fell = falls(before, after);
  if (!fell && !falls(after, before)) return {};
  const std::string reasons = joined(fell ? after.slowed_by : before.slowed_by, ", ");
  return std::string("clocks ") + (fell ? "fell" : "rose") + " from " + std::to_string(before.sm_clock_mhz) + " to " +
         std::to_string(after.sm_clock_mhz) + " MHz" + (reasons.empty() ? "" : (fell ? ": " : " after: ") + reasons);
}

}  // namespace

bool Disturbance::observe(const DeviceConditions& now) {
  other_processes_.insert(now.other_processes.begin(), now.other_processes.end());
  const DeviceConditions before = std::exchange(last_, now);
  if (!std::exchange(observed_, true)) return false;
  if (std::string change = clock_change(before, now); !change.empty()) clock_changes_.push_back(std::move(change));
  return before.other_processes != now.other_processes;
}

std::string Disturbance::text() const {
  std::vector<std::string> causes = clock_changes_;
  std::vector<std::string> pids;
  for (const int pid : other_processes_) pids.push_back(std::to_string(pid));
  if (pids.size() == 1) causes.push_back("another process uses the GPU: pid " + pids.front());
  if (pids.size() > 1) causes.push_back("other processes use the GPU: pids " + joined(pids, ", "));
  return joined(causes, "; ");
}

}  // namespace tunesmith
