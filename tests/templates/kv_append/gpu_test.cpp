// kv_append on a GPU: every problem with few and with many tokens.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/kv_append/cases.h"

namespace tunesmith {
namespace {

using test::Case;

class KvAppendGpu : public test::GpuKernels {};

TEST_F(KvAppendGpu, EveryProblem) {
  std::vector<Case> cases;
  for (const int tokens : {1, 45, 1000})
    for (const std::string& fields : test::kv_append_problems(tokens))
      for (const char* config : {"threads=64", "threads=256"}) cases.push_back(case_of("kv_append", fields, config));
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
