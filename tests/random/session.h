#pragma once
// Draws, checks and runs many random problems in processes of their own, so that a crash or a hang is a failure like any
// other.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/random/run.h"

namespace tunesmith::test {

struct SessionOptions {
  std::string device = "host";  ///< or "cuda"
  std::uint64_t run = 1;        ///< the seeds of all problems follow from it
  double minutes = 1;
  int jobs = 1;
  std::vector<std::uint64_t> seeds{};  ///< these problems alone
  std::vector<std::string> cases{};    ///< or these lines of cases.txt
  std::string op{};                    ///< problems of this operation alone; empty: all
  bool check_only = false;             ///< compile and run nothing
  bool large = false;                  ///< large_sizes instead of small_sizes
  bool all_candidates = false;
  SourceChange mutation{};     ///< of all kernels
  bool until_failure = false;  ///< end with the first failure
  bool shrink = true;
  bool missing = false;  ///< print which pairs did not run
  int candidates = 12;   ///< problems that are drawn and checked for each that runs
  double hang_s = 180;   ///< a problem that takes longer has failed
};

struct SessionResult {
  std::int64_t drawn = 0, invalid = 0, kernels = 0, launches = 0, failures = 0;
  std::vector<std::string> texts{};  ///< of the failures
};

/// Runs a session and prints failures as they happen, each with the line that reproduces it, and at the end the shares of
/// covered pairs.
SessionResult run_session(const SessionOptions& options);

}  // namespace tunesmith::test
