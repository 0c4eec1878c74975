#include "tests/random/shrink.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/random/run.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns whether the case fails with a valid problem, crashes, or takes more than 30 seconds.
bool fails(const RandomCase& candidate, const std::string& device) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int status = 0;
    try {
      Runner runner(device);
      std::vector<Runner::Run> runs{{candidate, check_description(candidate, runner.info(), true)}};
      if (!runs[0].checked.failure.empty()) status = 1;
      if (runs[0].checked.problem != nullptr && fits(*runs[0].checked.problem, large_sizes) &&
          runner.is_quick(*runs[0].checked.problem, runs[0].checked.config)) {
        RunOptions options;
        options.variants = false;
        runner.run(runs, options, [](const Runner::Run&, const RandomCase&) {});
        if (!runs[0].failure.empty()) status = 1;
      }
    } catch (const std::exception&) {
      status = 1;
    }
    _exit(status);
  }
  const auto end = Clock::now() + std::chrono::seconds(30);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

Fields without(const Fields& fields, std::size_t index) {
  Fields kept;
  for (std::size_t i = 0; const auto& [name, value] : fields)
    if (i++ != index) kept.set(name, value);
  return kept;
}

}  // namespace

std::string shrunk(const std::string& line, const std::string& device) {
  const auto end = Clock::now() + std::chrono::seconds(60);
  RandomCase smallest;
  try {
    smallest = RandomCase::parse(line);
  } catch (const std::exception&) {
    return line;
  }
  if (!fails(smallest, device)) return line + "  (does not fail again)";
  const auto accept = [&](const RandomCase& candidate) {
    if (Clock::now() > end || !fails(candidate, device)) return false;
    smallest = candidate;
    return true;
  };
  for (bool changed = true; changed && Clock::now() < end;) {
    changed = false;
    RandomCase candidate = smallest;
    candidate.config = {};
    if (!smallest.config.fields.empty() && accept(candidate)) changed = true;
    for (std::size_t i = smallest.problem.fields.size(); i-- > 0 && Clock::now() < end;) {
      candidate = smallest;
      candidate.problem.fields = without(smallest.problem.fields, i);
      if (accept(candidate)) changed = true;
    }
    for (const auto& [name, value] : Fields(smallest.problem.fields)) {
      const auto* const number = std::get_if<std::int64_t>(&value);
      if (number == nullptr || *number < 2) continue;
      for (const std::int64_t less : {std::int64_t{1}, *number / 2, *number - 1}) {
        candidate = smallest;
        candidate.problem.fields.set(name, less);
        if (accept(candidate)) {
          changed = true;
          break;
        }
      }
    }
  }
  return smallest.text();
}

}  // namespace tunesmith::test
