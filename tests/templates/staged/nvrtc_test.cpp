// Sources of rows that pass through shared memory: NVRTC compiles them for every architecture that has asynchronous copies.

#include <gtest/gtest.h>

#include "tests/support/source_compilation.h"
#include "tests/templates/staged/cases.h"

namespace tunesmith {
namespace {

using test::archs;
using test::Case;

class StagedNvrtc : public test::SourceCompilation {};

TEST_F(StagedNvrtc, CompilesForEveryArchitecture) {
  std::vector<Source> sources;
  std::size_t turn = 0;
  for (const char* name : archs) {
    const Arch arch = parse_arch(name);
    if (arch.number() < 80) continue;
    const DeviceInfo device = generic_device(arch);
    const std::vector<Case> widths = test::staged_widths(device), options = test::staged_options(device),
                            losses = test::staged_losses(device), buckets = test::staged_buckets(device);
    for (const std::vector<Case>* cases : {&widths, &options, &losses, &buckets})
      for (std::size_t i = turn++ % 16; i < cases->size(); i += 16) sources.push_back(source_of((*cases)[i], arch));
  }
  compile_covering(sources);
}

}  // namespace
}  // namespace tunesmith
