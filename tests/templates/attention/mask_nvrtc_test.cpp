// The kernel that computes the block mask of a mask_mod, and the kernels that use it: NVRTC compiles them for every
// architecture with few spills.

#include <gtest/gtest.h>

#include "tests/support/source_compilation.h"
#include "tests/templates/attention/masks.h"

namespace tunesmith {
namespace {

class AttentionMaskNvrtc : public test::SourceCompilation {};

TEST_F(AttentionMaskNvrtc, EveryVariantCompilesForEveryArchitectureThatHasIt) {
  std::vector<Source> sources;
  std::size_t turn = 0;
  const std::vector<test::Mask> masks = test::masks();
  for (const char* name : test::archs)
    for (const char* fields : {"seq_q=4096,head_dim=128,heads=16,causal=bottom-right", "seq_q=4096,head_dim=64,heads=16",
                               "seq_q=4096,head_dim=64,heads=16,batch=4,varlen=1,total_q=9000,total_kv=9000,dtype=f16",
                               "seq_q=1,seq_kv=8192,head_dim=128,heads=32,kv_heads=8"}) {
      const Problem problem = masks[turn % masks.size()].problem(fields);
      for (const Config& config : test::sample_space(problem, generic_device(parse_arch(name)), 1, turn++))
        sources.push_back(source_of({problem, config}, parse_arch(name)));
    }
  ASSERT_GT(sources.size(), 40U);
  for (const Source& source : sources)
    EXPECT_NE(source.text.find("\nattention_block_mask("), std::string::npos) << source.c.config.text();
  compile_covering(sources);
}

// Default configurations of problems with a mask_mod and no score_mod.
TEST_F(AttentionMaskNvrtc, DefaultsFitIntoRegisters) {
  std::vector<Source> sources;
  const test::Mask documents = test::masks().front();
  for (const char* name : {"sm_80", "sm_90a", "sm_120a"})
    for (const char* fields : {"seq_q=4096,head_dim=64,heads=16", "seq_q=4096,head_dim=128,heads=16",
                               "seq_q=4096,head_dim=256,heads=16", "seq_q=4096,head_dim=128,heads=16,causal=bottom-right"}) {
      const Problem problem = documents.problem(fields);
      const DeviceInfo device = generic_device(parse_arch(name));
      for (const char* variant : {"", "variant=mma"})
        sources.push_back(source_of(test::case_of(problem, device, variant), device.arch));
    }
  compile_covering(sources);
}

}  // namespace
}  // namespace tunesmith
