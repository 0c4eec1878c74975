#include "tuner/acceptance.h"

#include <algorithm>
#include <string_view>

namespace tunesmith {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The line that holds "(C75dd)", from there on: ptxas prints "ptxas info    : (C7510) Potential Performance Loss: ...".
std::string_view pipeline_message(std::string_view log) {
  constexpr std::string_view mark = "(C75";
  for (std::size_t at = log.find(mark); at != std::string_view::npos; at = log.find(mark, at + 1)) {
    const std::string_view message = log.substr(at, log.find('\n', at) - at);
    if (message.size() > 6 && is_digit(message[4]) && is_digit(message[5]) && message[6] == ')') return message;
  }
  return {};
}

}  // namespace

std::string why_not_worth_timing(const ParsedProblem& problem, const KernelConfig& config, const Binary& binary) {
  if (const std::string_view message = pipeline_message(binary.log); !message.empty())
    return "the compiler breaks the pipeline: " + std::string(message);
  const int allowed = problem.max_spill_bytes(config);
  for (const auto& [entry, resources] : binary.resources) {
    const int spilled = std::max(resources.spill_store_bytes, resources.spill_load_bytes);
    if (spilled > allowed)
      return "kernel " + entry + " spills " + std::to_string(spilled) + " bytes; at most " + std::to_string(allowed) +
             " are allowed";
  }
  return {};
}

}  // namespace tunesmith
