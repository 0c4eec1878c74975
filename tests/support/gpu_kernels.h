#pragma once
// Compiles and prepares cases on a GPU; tests are skipped without one.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/engine/parts.h"
#include "tests/support/cases.h"
#include "tests/support/covering.h"
#include "tests/support/largest_errors.h"

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

}  // namespace tunesmith::test
