#pragma once
// Changes the source of a kernel and expects the host executor to detect it: races that a GPU may not show. The executor
// delays copies, products and stores as long as the kernel allows.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "jit/executable.h"
#include "jit/host/compiler.h"
#include "jit/host/device.h"
#include "templates/render.h"
#include "tests/support/cases.h"
#include "tuner/verify.h"

namespace tunesmith::test {

/// Every occurrence of `from` becomes `to`.
struct Mutation {
  const char *from, *to;
};

/// Returns whether the mutated source passes verification. Runs it in a child process: a kernel that reads the number of its
/// tile too early may write anywhere.
inline bool passes(const Case& c, const std::string& source, HostDevice& device, const HostCompiler& compiler) {
  enum : int { correct, wrong, failed };
  const auto module = device.load(compiler.compile({"mutated.cu", source, device.info().arch}));
  const pid_t child = fork();
  if (child == 0) {
    int found = failed;
    try {
      const auto problem = c.op().parse(c.problem);
      const Executable executable(device, module, problem->launch_plan(c.config, device.info()));
      found = verify(*problem, executable, device, 3).passed ? correct : wrong;
    } catch (const Error& error) {  // such as a deadlock
      if (error.code() == ErrorCode::device_failed) found = wrong;
    }
    _exit(found);
  }
  int status = 0;
  EXPECT_TRUE(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == failed);
  return WIFEXITED(status) && WEXITSTATUS(status) == correct;
}

/// Expects the source of a case to pass verification, and to fail with any one of the mutations.
inline void expect_detected(const Case& c, const std::vector<Mutation>& mutations, HostDevice& device,
                            const HostCompiler& compiler) {
  const std::string right = render(*c.op().parse(c.problem), c.config);
  EXPECT_TRUE(passes(c, right, device, compiler));
  for (const auto& [from, to] : mutations) {
    std::string wrong = right;
    const std::size_t at = wrong.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    for (std::size_t place = at; place != std::string::npos; place = wrong.find(from, place + std::strlen(to)))
      wrong.replace(place, std::strlen(from), to);
    EXPECT_FALSE(passes(c, wrong, device, compiler)) << from << " -> " << to;
  }
}

}  // namespace tunesmith::test
