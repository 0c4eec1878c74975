// NVRTC compiles the kernels of kv_append for every architecture, without spills.

#include <gtest/gtest.h>

#include "tests/support/source_compilation.h"
#include "tests/templates/kv_append/cases.h"

namespace tunesmith {
namespace {

class KvAppendNvrtc : public test::SourceCompilation {};

TEST_F(KvAppendNvrtc, EveryProblemForEveryArchitecture) {
  std::vector<Source> sources;
  for (const std::string& fields : test::kv_append_problems(64))
    for (const char* arch : test::archs) sources.push_back(source_of("kv_append", fields, "", arch));
  compile_covering(sources, 0);
}

}  // namespace
}  // namespace tunesmith
