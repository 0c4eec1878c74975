// random_problems: draws problems of all operations at random and checks them, for as long as asked.
//   random_problems [--device host|cuda] [--minutes M] [--run N] [--jobs J] [--op NAME] [--large] [--check-only]
//                   [--all-candidates] [--candidates N] [--no-shrink] [--missing] [--hang SECONDS]
//   random_problems [--device host|cuda] --seed N | --case LINE | --cases FILE
//   random_problems [--device host|cuda] [--minutes M] --mutations FILE
// --run: the seeds of all problems follow from it; without it, a fresh one is printed. Ends with status 1 if a problem
// failed. --mutations: looks, for M minutes each, for a problem that fails with a mutation of the kernels' source; ends with
// status 1 if one is not found.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/random/fresh_seed.h"
#include "tests/random/session.h"

namespace tunesmith::test {
namespace {

/// Reads lines such as "softmax | row.first | 0": an operation, a text of its kernels, and another text.
std::vector<std::pair<std::string, SourceChange>> mutations_in(const std::string& path) {
  std::vector<std::pair<std::string, SourceChange>> mutations;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string bar = " | ";
    const std::size_t first = line.find(bar), second = line.find(bar, first + 1);
    if (line.starts_with('#') || second == std::string::npos) continue;
    mutations.push_back({line.substr(0, first),
                         {line.substr(first + bar.size(), second - first - bar.size()), line.substr(second + bar.size())}});
  }
  return mutations;
}

/// Returns the number of mutations that no problem finds.
int look_for(const std::vector<std::pair<std::string, SourceChange>>& mutations, SessionOptions options) {
  int missed = 0;
  options.until_failure = true;
  options.shrink = false;
  for (const auto& [op, mutation] : mutations) {
    options.op = op;
    options.mutation = mutation;
    const SessionResult result = run_session(options);
    const bool compiles = result.texts.empty() || !result.texts[0].starts_with("compile_failed");
    const bool found = result.failures > 0 && compiles;
    std::printf("%s after %lld kernels of %s: '%s' instead of '%s'\n",
                found ? "found" : (compiles ? "NOT FOUND" : "DOES NOT COMPILE"), static_cast<long long>(result.kernels),
                op.c_str(), mutation.to.c_str(), mutation.from.c_str());
    if (!found) ++missed;
  }
  std::printf("random_problems: %d of %zu mutations were not found\n", missed, mutations.size());
  return missed;
}

}  // namespace
}  // namespace tunesmith::test

int main(int count, char** arguments) {
  using namespace tunesmith::test;
  SessionOptions options;
  options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.run = fresh_seed("run");
  bool replays = false;
  std::string mutations;
  for (int i = 1; i < count; ++i) {
    const std::string flag = arguments[i];
    const auto value = [&]() -> std::string {
      if (i + 1 < count) return arguments[++i];
      std::fprintf(stderr, "random_problems: %s needs a value\n", flag.c_str());
      std::exit(2);
    };
    const auto number = [&] { return std::strtoull(value().c_str(), nullptr, 0); };
    if (flag == "--device")
      options.device = value();
    else if (flag == "--minutes")
      options.minutes = std::strtod(value().c_str(), nullptr);
    else if (flag == "--run")
      options.run = number();
    else if (flag == "--jobs")
      options.jobs = static_cast<int>(number());
    else if (flag == "--op")
      options.op = value();
    else if (flag == "--seed")
      options.seeds.push_back(number());
    else if (flag == "--case")
      options.cases.push_back(value());
    else if (flag == "--cases") {
      replays = true;
      std::ifstream file(value());
      for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') options.cases.push_back(line);
    } else if (flag == "--mutations")
      mutations = value();
    else if (flag == "--large")
      options.large = true;
    else if (flag == "--check-only")
      options.check_only = true;
    else if (flag == "--all-candidates")
      options.all_candidates = true;
    else if (flag == "--candidates")
      options.candidates = static_cast<int>(number());
    else if (flag == "--no-shrink")
      options.shrink = false;
    else if (flag == "--missing")
      options.missing = true;
    else if (flag == "--hang")
      options.hang_s = std::strtod(value().c_str(), nullptr);
    else {
      std::fprintf(stderr, "random_problems: unknown argument '%s'\n", flag.c_str());
      return 2;
    }
  }
  if (!mutations.empty()) {
    const auto all = mutations_in(mutations);
    return all.empty() || look_for(all, options) != 0 ? 1 : 0;
  }
  if (replays && options.cases.empty()) {
    std::printf("random_problems: no cases\n");
    return 0;
  }
  if (options.seeds.empty() && options.cases.empty())
    std::printf("random_problems: --device %s --run 0x%llx --minutes %g --jobs %d\n", options.device.c_str(),
                static_cast<unsigned long long>(options.run), options.minutes, options.jobs);
  else
    options.jobs = std::min<int>(options.jobs, static_cast<int>(options.seeds.size() + options.cases.size()));
  const SessionResult result = run_session(options);
  std::printf("random_problems: %lld drawn, %lld of them invalid, %lld kernels, %lld verified launches, %lld failed\n",
              static_cast<long long>(result.drawn), static_cast<long long>(result.invalid),
              static_cast<long long>(result.kernels), static_cast<long long>(result.launches),
              static_cast<long long>(result.failures));
  return result.failures == 0 ? 0 : 1;
}
