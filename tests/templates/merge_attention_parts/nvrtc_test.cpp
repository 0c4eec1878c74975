// NVRTC compiles the kernels of merge_attention_parts for every architecture, without spills.

#include <gtest/gtest.h>

#include "tests/support/source_compilation.h"
#include "tests/templates/merge_attention_parts/cases.h"

namespace tunesmith {
namespace {

class MergePartsNvrtc : public test::SourceCompilation {};

TEST_F(MergePartsNvrtc, EveryProblemForEveryArchitecture) {
  std::vector<Source> sources;
  for (const std::string& fields : test::merge_parts_problems())
    for (const char* config : {"", "threads=256,together=8"})
      for (const char* arch : test::archs) sources.push_back(source_of("merge_attention_parts", fields, config, arch));
  compile_covering(sources, 0);
}

}  // namespace
}  // namespace tunesmith
