// Numerics of attention's backward pass on a GPU, for every variant and many configurations, with poisoned outputs.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention_backward/matrix.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionBackwardGpu : public test::GpuKernels {};

class AttentionBackwardGpuParts : public AttentionBackwardGpu, public testing::WithParamInterface<std::size_t> {};
constexpr std::size_t parts = 6;

TEST_P(AttentionBackwardGpuParts, Matrix) {
  std::vector<Case> cases;
  for (const std::uint64_t seed : {3, 4})
    for (const test::BackwardCase& each : test::backward_matrix({device().info()}, seed)) cases.push_back(each.c);
  verify_each(test::part_of(cases, GetParam(), parts));
}

// Verifies the search spaces of common shapes like the tuner.
TEST_P(AttentionBackwardGpuParts, SearchSpacesOfCommonShapes) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=32,batch=4", "seq_q=4096,head_dim=128,heads=16,batch=4,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,batch=4", "seq_q=4096,head_dim=192,head_dim_v=128,heads=8,causal=bottom-right",
        "seq_q=4096,head_dim=128,heads=16,batch=4,causal=bottom-right,deterministic=1",
        "seq_q=4096,head_dim=64,heads=32,batch=4,window_left=700,window_right=90,deterministic=1",
        "seq_q=4096,head_dim=128,heads=32,kv_heads=8,causal=bottom-right,dtype=f16",
        "seq_q=512,head_dim=128,heads=16,batch=32", "seq_q=1024,head_dim=64,heads=16,batch=32",
        "seq_q=250,head_dim=64,heads=16,kv_heads=4,batch=32,causal=bottom-right"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    const Problem small = find_op("attention_backward").parse(problem)->verification_problem();
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device().info(), Effort::quick))
      cases.push_back({small, config});
  }
  verify_all(test::part_of(cases, GetParam(), parts));
}

// The same with options that wgmma has in its own way.
TEST_P(AttentionBackwardGpuParts, SearchSpacesOfOptions) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=4096,head_dim=128,heads=16,batch=4,softcap=30",
        "seq_q=4096,head_dim=64,heads=16,batch=4,softcap=20,dtype=f16",
        "seq_q=4096,head_dim=256,heads=8,batch=4,softcap=30,causal=bottom-right",
        "seq_q=4096,head_dim=64,heads=16,kv_heads=4,batch=4,alibi=1,dslopes=1,dtype=f16",
        "seq_q=4096,head_dim=128,heads=16,batch=4,alibi=1,dslopes=1,softcap=30,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,batch=4,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=64,heads=16,batch=8,varlen=1,total_q=20000,total_kv=20000,causal=bottom-right,sinks=1,dsinks=1",
        "seq_q=4096,head_dim=128,heads=16,kv_heads=4,batch=8,varlen=1,total_q=20000,total_kv=20000,deterministic=1",
        "seq_q=4096,head_dim=128,heads=16,batch=8,varlen=1,total_q=20000,total_kv=20000,causal=bottom-right,deterministic=1,"
        "accumulate=1,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=256,heads=8,batch=8,varlen=1,total_q=20000,total_kv=20000,softcap=30,accumulate=1",
        "seq_q=4096,head_dim=128,heads=16,batch=4,accumulate=1,dlse=1",
        "seq_q=4096,head_dim=128,heads=16,batch=4,dropout=0.1,dropout_seed=3,causal=bottom-right",
        "seq_q=4096,head_dim=64,heads=16,kv_heads=4,batch=4,dropout=0.3,rng_state=1,alibi=1,dslopes=1,dtype=f16",
        "seq_q=4096,head_dim=256,heads=8,batch=4,dropout=0.2,softcap=30",
        "seq_q=4096,head_dim=96,heads=8,batch=8,varlen=1,total_q=20000,total_kv=20000,dropout=0.1,deterministic=1"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    const Problem small = find_op("attention_backward").parse(problem)->verification_problem();
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device().info(), Effort::quick))
      if (config.variant() == "wgmma") cases.push_back({small, config});
  }
  EXPECT_EQ(cases.empty(), name(device().info().arch) != "sm_90a");
  verify_all(test::part_of(cases, GetParam(), parts));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardGpuParts, testing::Range(std::size_t{0}, parts));

}  // namespace
}  // namespace tunesmith
