#include "tuner/recorded.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Reports whether a fact of the provenance affects timings within a device class. The GPU's serial number does not.
bool is_decisive(std::string_view fact) {
  static constexpr std::array<std::string_view, 3> words{"driver", "clock", "power"};
  return std::ranges::any_of(words, [&](std::string_view word) { return fact.find(word) != std::string_view::npos; });
}

}  // namespace

std::optional<Config> recorded_config(const ParsedProblem& problem, const DeviceInfo& device, const std::string& text) {
  try {
    const KernelConfig config = problem.configure({parse_fields(text, "recorded config")});
    if (problem.why_invalid(device, config).empty()) return config.config();
  } catch (const Error&) {  // written by another version or hand
  }
  return std::nullopt;
}

ParsedProblemPtr recorded_problem(const Op& op, const TuningRecord& record) {
  const std::string fields = record.problem.substr(record.problem.find(' ') + 1);
  return op.parse(op.normalize({std::string(op.name()), parse_fields(fields, "recorded problem")}));
}

std::string disturbance_text(const TuningRecord& record) {
  const auto fact = [&](const char* name) {
    const auto found = record.provenance.find(name);
    return found == record.provenance.end() ? std::string() : found->second;
  };
  std::string text = fact("disturbed");
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (const std::string drift = fact("drift"); !drift.empty()) add("times changed by " + drift);
  if (const std::string repeats = fact("repeats"); !repeats.empty())
    add("the final was measured again " + (repeats == "1" ? "once" : repeats + " times"));
  return text;
}

bool is_stale(const TuningRecord& record, const std::map<std::string, std::string>& provenance) {
  return std::ranges::any_of(provenance, [&](const auto& fact) {
    const auto recorded = record.provenance.find(fact.first);
    return is_decisive(fact.first) && recorded != record.provenance.end() && recorded->second != fact.second;
  });
}

}  // namespace tunesmith
