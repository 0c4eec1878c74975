#pragma once
// Compiles and prepares cases on the host executor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "jit/executable.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/support/cases.h"
#include "tests/support/covering.h"
#include "tests/support/largest_errors.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith::test {

class HostKernels : public testing::Test {
 protected:
  explicit HostKernels(HostCompilerOptions options = {}) : compiler_(std::move(options)) {}

  Case case_of(const Problem& problem, const std::string& config) { return test::case_of(problem, device_.info(), config); }
  Case case_of(std::string_view op, const std::string& fields, const std::string& config) {
    return test::case_of(op, fields, device_.info(), config);
  }

  /// Compiles all cases in a few compiler runs and calls use(case, executable) for each.
  template <typename Use>
  void with_executables(const std::vector<Case>& cases, const Use& use) {
    constexpr std::size_t batch = 24;
    for (std::size_t begin = 0; begin < cases.size(); begin += batch) {
      const std::size_t end = std::min(begin + batch, cases.size());
      std::vector<CompileRequest> requests;
      for (std::size_t i = begin; i < end; ++i)
        requests.push_back(
            {cases[i].problem.op + ".cu", render(*cases[i].op().parse(cases[i].problem), cases[i].config), arch_});
      const auto modules = device_.load_all(compiler_.compile_many(requests));
      for (std::size_t i = begin; i < end; ++i) {
        const Case& c = cases[i];
        use(c, Executable(device_, modules[i - begin], c.op().parse(c.problem)->launch_plan(c.config, device_.info())));
      }
    }
  }

  /// Compares the cases with float64; prints what it found.
  LargestErrors verify_all(const std::vector<Case>& cases) {
    constexpr std::uint64_t seed = 3;
    LargestErrors errors;
    with_executables(cases, [&](const Case& c, const Executable& executable) {
      try {
        errors.add(c, verify(*c.op().parse(c.problem), executable, device_, seed));
      } catch (const Error& error) {
        ADD_FAILURE() << c.text() << ": " << error.what();
      }
    });
    errors.print();
    return errors;
  }

  /// Compares the cases with float64 that cover all problems and pairs of values (covering.h).
  LargestErrors verify_covering(const std::vector<Case>& cases) {
    const std::vector<Case> chosen = covering(cases);
    std::printf("%zu of %zu cases cover all pairs\n", chosen.size(), cases.size());
    return verify_all(chosen);
  }

  HostDevice device_;
  Arch arch_ = device_.info().arch;  ///< that kernels are compiled for
  HostCompiler compiler_;
};

/// The same for kernels that take more time than g++: attention's.
class OptimizedHostKernels : public HostKernels {
 protected:
  OptimizedHostKernels() : HostKernels({.compiler = {}, .extra_flags = {"-Og"}, .dump_folder = {}}) {}
};

}  // namespace tunesmith::test
