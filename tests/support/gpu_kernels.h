#pragma once
// Compiles and prepares cases on a GPU; tests are skipped without one.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/engine/parts.h"
#include "tests/support/largest_errors.h"
#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override;

  Device& device() { return *engine_->parts().device; }
  bool has_clusters() { return device().info().arch.number() >= 90; }
  Case case_of(const Problem& problem, const std::string& config) { return test::case_of(problem, device().info(), config); }
  Case case_of(std::string_view op, const std::string& fields, const std::string& config) {
    return test::case_of(op, fields, device().info(), config);
  }
  /// Returns the case, or nothing if the device cannot run it.
  std::vector<Case> case_if_valid(std::string_view op, const std::string& fields, const std::string& config);

  Built build(const Case& c);
  std::shared_ptr<const Executable> executable_of(const Case& c);
  /// Compiles the cases on all cores and stores the binaries in the engine's cache.
  void compile_all(const std::vector<Case>& cases);
  /// Compiles the cases that cover pairs of values (covering.h) and compares them with float64; prints what it found.
  LargestErrors verify_all(const std::vector<Case>& all);
  /// Does the same with all of the cases.
  LargestErrors verify_each(const std::vector<Case>& cases);

  std::unique_ptr<Engine> engine_;
};

/// Returns each `parts`-th case from `part` on: a large set as several tests, which run in different processes
/// (GPU_TESTS_SHARDS of scripts/gpu_tests.sh).
inline std::vector<Case> part_of(const std::vector<Case>& cases, std::size_t part, std::size_t parts) {
  std::vector<Case> chosen;
  for (std::size_t i = part; i < cases.size(); i += parts) chosen.push_back(cases[i]);
  return chosen;
}

}  // namespace tunesmith::test
