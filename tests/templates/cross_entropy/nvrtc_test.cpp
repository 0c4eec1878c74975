// Generated sources of cross-entropy: NVRTC compiles them for every architecture, they contain the expected instructions,
// and nvcc compiles them unchanged.

#include <tuple>

#include "tests/support/source_compilation.h"

namespace tunesmith {
namespace {

using test::archs;
using test::count_of;

class CrossEntropyNvrtc : public test::SourceCompilation {};

// The quick search space for the vocabularies of language models.
TEST_F(CrossEntropyNvrtc, QuickSearchSpaceOfCommonShapesCompiles) {
  std::vector<Source> sources;
  for (const char* fields :
       {"rows=8192,cols=32000", "rows=8192,cols=32000,dtype=bf16,reduction=none",
        "rows=8192,cols=128256,dtype=bf16,gradient=in_place", "rows=8192,cols=50257,dtype=bf16,gradient=in_place"}) {
    const Problem problem = test::normalized("cross_entropy", fields);
    const Arch arch = parse_arch("sm_90a");
    for (const Config& config : find_op("cross_entropy").parse(problem)->search_space(generic_device(arch), Effort::quick))
      sources.push_back(source_of({problem, config}, arch));
  }
  compile_covering(sources);
}

// Logits are read once if the row is resident or there is no gradient, and twice otherwise.
TEST_F(CrossEntropyNvrtc, ReadsLogitsAsOftenAsNecessary) {
  const std::string held = ptx_of("cross_entropy", "rows=9,cols=8192,gradient=in_place,reduction=none",
                                  "variant=block,threads=256,load=evict_last");
  EXPECT_EQ(count_of(held, "ld.global.L2::cache_hint.v4.b32"), 8U);
  EXPECT_EQ(count_of(held, "st.global.v4.b32"), 16U) << "8, and 8 that write zeros for ignored rows";
  const std::string loss =
      ptx_of("cross_entropy", "rows=9,cols=8192,reduction=none", "variant=two_pass,threads=256,unroll=4,load=evict_last");
  EXPECT_EQ(count_of(loss, "st.global.v4.b32"), 0U);
  EXPECT_GE(count_of(loss, "ld.global.L2::cache_hint.v4.b32"), 4U);
  const std::string twice = ptx_of("cross_entropy", "rows=9,cols=8192,gradient=in_place,reduction=none",
                                   "variant=two_pass,threads=256,unroll=4,load=evict_last,load_again=streaming");
  EXPECT_GE(count_of(twice, "ld.global.cs.v4.b32"), 4U);
  EXPECT_GE(count_of(twice, "st.global.v4.b32"), 4U);
}

// The pipeline variant loads rows with TMA, reduces without a cluster barrier, and does not spill.
TEST_F(CrossEntropyNvrtc, PipelineUsesTma) {
  std::vector<Source> sources;
  for (const char* fields :
       {"rows=8192,cols=128256,dtype=bf16,gradient=in_place", "rows=8192,cols=128256,gradient=in_place,reduction=none",
        "rows=4096,cols=262144,gradient=separate,out_dtype=bf16,dloss=row,reduction=none",
        "rows=8192,cols=151936,dtype=f16,gradient=separate,out_dtype=f32,softcap=30,scale=2,weight=1,z_loss=0.1"}) {
    const Source source = source_of("cross_entropy", fields, "variant=pipeline", "sm_90a");
    const std::string ptx = ptx_of(source);
    for (const char* instruction : {"cp.async.bulk.shared::cluster.global.mbarrier", "mbarrier.try_wait.parity",
                                    "st.async.shared::cluster", "atom.relaxed.gpu.global.add.u32"})
      EXPECT_GE(count_of(ptx, instruction), 1U) << fields << " " << instruction;
    EXPECT_EQ(count_of(ptx, "barrier.cluster.wait"), 3U) << "two at the start, one at the end";
    sources.push_back(source);
    for (const Config& config :
         source.c.op().parse(source.c.problem)->search_space(generic_device(source.arch), Effort::full))
      if (config.variant() == "pipeline" && config.text().find("load=evict_last,store=plain") != std::string::npos)
        sources.push_back(source_of({source.c.problem, config}, source.arch));
  }
  compile_covering(sources);
}

// A block cannot load while it waits for its target or for the target's logit, so it requests them after the first loads.
TEST_F(CrossEntropyNvrtc, LoadsTheTargetAfterTheFirstVectors) {
  for (const char* config : {"variant=two_pass,threads=512,unroll=4,load=evict_last",
                             "variant=split,threads=256,unroll=4,blocks_per_row=2,load=evict_last"}) {
    const std::string ptx = ptx_of("cross_entropy", "rows=9,cols=32000,dtype=bf16,reduction=none", config);
    const std::size_t row = ptx.find("ld.global.L2::cache_hint.v4.b32");
    const std::size_t target = ptx.find("ld.global.u64", row);
    const std::size_t logit = ptx.find("@there ld.global.b16", row);
    EXPECT_LT(row, target) << config;
    EXPECT_LT(target, logit) << config;
    EXPECT_NE(logit, std::string::npos) << config;
    EXPECT_GE(count_of(ptx.substr(row, target - row), "ld.global.L2::cache_hint.v4.b32"), 4U) << config;
  }
}

// A row in registers has the target's logit. The barrier keeps ptxas from moving the load of the target before the row's.
TEST_F(CrossEntropyNvrtc, ResidentRowsLoadTheTargetAfterABarrierAndNoLogitTwice) {
  for (const char* config :
       {"variant=block,threads=1024,registers=packed,min_blocks=2,load=evict_last",
        "variant=block,threads=256,registers=packed,load=evict_last", "variant=warp,threads=128,lanes=32,load=evict_last"}) {
    const std::string cols = std::string_view(config).starts_with("variant=warp") ? "1024" : "16384";
    const std::string ptx = ptx_of("cross_entropy", "rows=9,cols=" + cols + ",dtype=bf16,reduction=none", config);
    const std::size_t row = ptx.rfind("ld.global.L2::cache_hint.v4.b32");
    const std::size_t barrier = ptx.find("bar.warp.sync", row);
    EXPECT_NE(row, std::string::npos) << config;
    const std::size_t target = ptx.find("ld.global.u64");
    EXPECT_NE(target, std::string::npos) << config;
    EXPECT_LT(barrier, target) << config;
    EXPECT_GE(count_of(ptx.substr(0, target), "ld.global.L2::cache_hint.v4.b32"), 2U) << config;
    EXPECT_EQ(count_of(ptx, "ld.global.b16"), 0U) << config;
  }
}

TEST_F(CrossEntropyNvrtc, NvccCompilesASample) {
  if (!has_nvcc()) GTEST_SKIP() << "nvcc is not installed";
  // One of each main template, with options.
  for (const auto& [op, fields, config] :
       {std::tuple{"cross_entropy", "rows=9,cols=128256,dtype=bf16,gradient=in_place", "variant=cluster"},
        {"cross_entropy", "rows=9,cols=128256,dtype=bf16,gradient=in_place,weight=1", "variant=pipeline"},
        {"cross_entropy",
         "rows=9,cols=50257,label_smoothing=0.1,weight=1,z_loss=0.1,softcap=30,gradient=separate,num_correct=1",
         "variant=two_pass"},
        {"cross_entropy_shard", "rows=9,cols=2000,vocab_size=4000,argmax=1,dtype=f16", "variant=warp,lanes=32"},
        {"cross_entropy_combine", "rows=9,shards=4,vocab_size=4000,argmax=1,num_correct=1", ""},
        {"cross_entropy_backward", "rows=9,cols=32000,dtype=bf16,nll=1,label_smoothing=0.1,weight=1", ""},
        {"cross_entropy", "rows=9,cols=12800,dtype=f64,gradient=in_place,softcap=30,argmax=1", "variant=cluster"},
        {"cross_entropy", "rows=9,cols=50257,dtype=f64,label_smoothing=0.1,weight=1,z_loss=0.1,gradient=separate",
         "variant=two_pass"},
        {"cross_entropy_shard", "rows=9,cols=2000,vocab_size=4000,argmax=1,dtype=f64", "variant=warp,lanes=32"},
        {"cross_entropy_combine", "rows=9,shards=4,vocab_size=4000,argmax=1,num_correct=1,dtype=f64", ""},
        {"cross_entropy", "rows=9,cols=100,inner=12,dtype=f64,gradient=separate,argmax=1", ""},
        {"cross_entropy_backward", "rows=9,cols=32000,dtype=f64,nll=1,label_smoothing=0.1,weight=1,dlse=1", ""},
        {"cross_entropy_backward", "rows=9,cols=100,inner=12,dtype=f64,nll=1,dlse=1", ""}})
    EXPECT_TRUE(nvcc_takes(source_of(op, fields, config, "sm_90a"), "-arch=sm_90a -cubin")) << op << " " << config;
}

// Columns are read once and, for the gradient, written once, in vectors of four positions, and no thread waits for another.
TEST_F(CrossEntropyNvrtc, ResidentColumnsAreReadOnce) {
  const char* const config = "variant=resident,threads=64,lanes=64,load=plain,store=plain";
  struct Expected {
    const char *fields, *access;
    std::size_t stores;
  };
  for (const auto& [fields, access, stores] :
       {Expected{"rows=8,cols=24,inner=4096,reduction=none,gradient=in_place", "v4.b32", 24U},
        Expected{"rows=8,cols=24,inner=4096,reduction=none,gradient=separate,dtype=bf16,target_dtype=i32", "v2.b32", 24U},
        Expected{"rows=8,cols=24,inner=4096,reduction=none", "v4.b32", 0U}}) {
    const std::string ptx = ptx_of("cross_entropy", fields, config);
    EXPECT_EQ(count_of(ptx, std::string("ld.global.") + access), 24U) << fields;
    EXPECT_EQ(count_of(ptx, std::string("st.global.") + access), stores) << fields;
    EXPECT_EQ(count_of(ptx, "bar.sync"), 0U) << fields;
  }
  const std::string backward = ptx_of("cross_entropy_backward", "rows=8,cols=24,inner=4096,reduction=none",
                                      "threads=64,lanes=64,unroll=8,load=plain");
  EXPECT_EQ(count_of(backward, "ld.global.v4.b32"), 8U);
  EXPECT_EQ(count_of(backward, "st.global.v4.b32"), 8U);
}

}  // namespace
}  // namespace tunesmith
