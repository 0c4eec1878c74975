// e4m3 keys and values on a GPU: numerics of every variant, kind of scales and layout.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionE4m3Gpu : public test::GpuKernels {};

TEST_F(AttentionE4m3Gpu, EveryVariantScaleAndLayout) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const char* kind : {"", ",kv_scales=tensor", ",kv_scales=head", ",kv_scales=batch_head", ",kv_scales=token_head"})
    for (const char* dims : {"head_dim=128,heads=8,kv_heads=2", "head_dim=64,heads=6,kv_heads=3",
                             "head_dim=80,head_dim_v=48,heads=4", "head_dim=256,heads=2,kv_heads=1"})
      for (const char* queries :
           {"batch=14,seq_q=1,page_size=16,max_pages=94,pages=700", "batch=14,seq_q=3,page_size=1,max_pages=1500,pages=9000",
            "batch=9,seq_q=1,seq_kv=3000", "batch=5,seq_q=2,seq_kv=900,kv_lengths=1,softcap=20,sinks=1",
            "batch=9,seq_q=300,page_size=64,max_pages=20,pages=150,causal=bottom-right",
            "batch=9,seq_q=200,varlen=1,total_q=900,page_size=100,max_pages=9,pages=60,causal=bottom-right,window_left=300",
            "batch=3,seq_q=400,seq_kv=500,alibi=1", "batch=5,seq_q=90,seq_kv=300,varlen=1,total_q=300,total_kv=1100"})
        for (const char* config : {"variant=split", "variant=split,splits=3,tile_kv=32", "variant=split,cluster=2",
                                   "variant=split,tile_q=32,tile_kv=64,warps=2,cluster=4", "variant=mma",
                                   "variant=mma,tile_q=64,warps=4,tile_kv=96,stages=2", "variant=simt"}) {
          const std::string fields = std::string(dims) + "," + queries + kind + ",kv_dtype=e4m3" +
                                     (turn % 2 == 0 ? ",dtype=bf16" : ",dtype=f16") + (turn % 3 == 0 ? ",layout=bhsd" : "");
          if (++turn % 5 != 0) continue;  // every combination of two, not of all
          for (const Case& c : case_if_valid("attention", fields, config)) cases.push_back(c);
        }
  EXPECT_GT(cases.size(), 80U);
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
