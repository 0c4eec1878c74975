#pragma once
// Runs random cases on the host executor or on a GPU and compares them with float64.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/engine/parts.h"
#include "tests/random/checks.h"

namespace tunesmith::test {

struct RunOptions {
  /// Returns how many pairs of classes a launch would be the first to cover.
  std::function<std::size_t(const RandomCase&, const ParsedProblem&, const Config&)> gain{};
  /// Called after each launch whose results are right.
  std::function<void(const RandomCase&, const ParsedProblem&, const Config&)> verified{};
  bool large = false;           ///< on problems of large_sizes
  bool all_candidates = false;  ///< verifies every candidate of the search
  bool graphs = true;           ///< captures some launches; on a GPU only
  bool variants = true;         ///< verifies other values and problems with the same kernel, too
};

/// Replaces text in the sources of kernels, to see that wrong ones are found.
struct SourceChange {
  std::string from, to;
};

class Runner {
 public:
  /// Opens "host" or "cuda". Throws Error(no_device).
  explicit Runner(const std::string& device, SourceChange mutation = {});
  ~Runner();

  const DeviceInfo& info() const noexcept;
  bool on_host() const noexcept { return info().kind == DeviceInfo::Kind::host; }
  /// Returns the device whose configurations a seed draws: on the host every second time a GPU, since searches of the host
  /// leave out kernels that take long to emulate.
  const DeviceInfo& drawn_for(std::uint64_t seed) const noexcept;

  struct Run {
    RandomCase random_case;  ///< after a failure: what failed, which may have other values and sizes than what was drawn
    Checked checked;
    std::string failure{};
    int launches = 0;        ///< problems that were verified
    std::uint64_t seed = 0;  ///< that drew the case; 0: unknown
  };
  /// Compiles the cases, in one run of the host compiler, and runs them. `started` is called before each launch.
  using Started = std::function<void(const Run&, const RandomCase&)>;
  void run(std::vector<Run>& runs, const RunOptions& options, const Started& started);
  /// Returns whether launches of the problem take the host executor at most some seconds.
  bool is_quick(const ParsedProblem& problem, const Config& config) const;

  /// A device failure has destroyed the context: nothing more can run in this process.
  bool broken() const noexcept { return broken_; }

 private:
  void run_one(Run& run, const std::shared_ptr<Module>& module, const RunOptions& options, const Started& started);
  /// Verifies the case, the same kernel with other values, and with other problems that have the same source.
  std::string verify_variants(Run& run, const std::shared_ptr<Module>& module, const RunOptions& options,
                              const Started& started);
  std::string verify_candidates(Run& run, const RunOptions& options);
  std::shared_ptr<Module> compile(const ParsedProblem& problem, const Config& config);
  CompileRequest request_of(const ParsedProblem& problem, const Config& config) const;

  const SourceChange mutation_;
  const DeviceInfo hopper_ = generic_device(parse_arch("sm_90a"));
  std::shared_ptr<Device> device_;
  std::shared_ptr<Compiler> compiler_;
  bool broken_ = false;
};

}  // namespace tunesmith::test
