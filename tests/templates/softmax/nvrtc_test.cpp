// Generated sources of the softmax family: NVRTC compiles them for every architecture, they contain the expected
// instructions, and nvcc compiles them unchanged.

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "tests/support/source_compilation.h"

namespace tunesmith {
namespace {

using test::archs;
using test::count_of;

class SoftmaxNvrtc : public test::SourceCompilation {};

// Long rows in the smallest clusters and in small groups of blocks, and block sizes that are not powers of two, as in the
// full search space and in defaults.
TEST_F(SoftmaxNvrtc, BlockAndClusterSizesThatAreNotPowersOfTwoCompile) {
  std::vector<Source> sources;
  for (const std::string_view op : {"softmax", "softmax_backward"})
    for (const auto& [fields, config] : {std::pair{"rows=4096,cols=131072", "variant=cluster"},
                                         {"rows=4096,cols=262144,dtype=bf16", "variant=cluster"},
                                         {"rows=4096,cols=131072",
                                          "variant=grid,threads=512,blocks_per_row=8,"
                                          "register_vectors=3,min_blocks=2"},
                                         {"rows=4096,cols=2112,dtype=bf16", ""},
                                         {"rows=4096,cols=8256", ""},
                                         {"rows=4096,cols=6976", ""},
                                         {"rows=4096,cols=14400", ""},
                                         {"rows=4096,cols=12672,dtype=bf16", "variant=block,threads=288"}})
      sources.push_back(source_of(op, fields, config, "sm_90a"));
  compile_covering(sources);
}

// Two architectures for each shape.
TEST_F(SoftmaxNvrtc, QuickSearchSpaceOfCommonShapesCompiles) {
  std::vector<Source> sources;
  for (const auto& [op, fields, arch_names] :
       {std::tuple{"softmax", "rows=4096,cols=32000,dtype=bf16", std::array{"sm_90a", "sm_80"}},
        {"log_softmax", "rows=4096,cols=1024", std::array{"sm_90a", "sm_75"}},
        {"softmax_backward", "rows=4096,cols=8192,dtype=f16,out_dtype=f32", std::array{"sm_90a", "sm_120a"}}})
    for (const char* arch_name : arch_names) {
      const Arch arch = parse_arch(arch_name);
      const Problem problem = test::normalized(op, fields);
      for (const Config& config : find_op(op).parse(problem)->search_space(generic_device(arch), Effort::quick))
        sources.push_back(source_of({problem, config}, arch));
    }
  compile_covering(sources);
}

// For every cache hint and every vector width.
TEST_F(SoftmaxNvrtc, PtxHasTheConfiguredHintsAndWidths) {
  struct Width {
    const char *fields, *suffix;
  };
  const Width widths[] = {{"cols=256,dtype=f32", ".v4.b32"},
                          {"cols=256,dtype=f32,x_alignment=8,y_alignment=8", ".v2.b32"},
                          {"cols=255,dtype=f32,x_alignment=4", ".b32"},
                          {"cols=255,dtype=bf16,y_alignment=2", ".b16"}};
  const std::pair<const char*, const char*> loads[] = {{"plain", "ld.global"},
                                                       {"no_allocate", "ld.global.nc.L1::no_allocate"},
                                                       {"streaming", "ld.global.cs"},
                                                       {"evict_first", "ld.global.L2::cache_hint"},
                                                       {"evict_last", "ld.global.L2::cache_hint"}};
  const std::pair<const char*, const char*> stores[] = {
      {"plain", "st.global"}, {"streaming", "st.global.cs"}, {"evict_first", "st.global.L2::cache_hint"}};
  for (const Width& width : widths)
    for (std::size_t i = 0; i < std::size(loads); ++i) {
      const auto& [load, load_text] = loads[i];
      const auto& [store, store_text] = stores[i % std::size(stores)];
      const Source source = source_of(test::softmax_ops[i % 2], "rows=64," + std::string(width.fields),
                                      std::string("variant=warp,lanes=32,load=") + load + ",store=" + store, "sm_90a");
      const std::string ptx = ptx_of(source);
      SCOPED_TRACE(source.c.text() + " " + width.suffix);
      EXPECT_NE(ptx.find(std::string(load_text) + width.suffix + " "), std::string::npos);
      EXPECT_NE(ptx.find(std::string(store_text) + width.suffix + " "), std::string::npos);
      // There must be no other access to global memory, such as one with a wrong width or hint.
      std::size_t others = 0;
      for (const char* kind : {"ld.global", "st.global"})
        for (std::size_t at = ptx.find(kind); at != std::string::npos; at = ptx.find(kind, at + 1)) {
          const std::string instruction = ptx.substr(at, ptx.find(' ', at) - at);
          others +=
              instruction != std::string(load_text) + width.suffix && instruction != std::string(store_text) + width.suffix;
        }
      EXPECT_EQ(others, 0U);
      const std::string l(load), s(store);
      EXPECT_EQ(l == "evict_last", ptx.find("createpolicy.fractional.L2::evict_last") != std::string::npos);
      EXPECT_EQ(l == "evict_first" || s == "evict_first",
                ptx.find("createpolicy.fractional.L2::evict_first") != std::string::npos);
    }
}

// ptxas encodes an eviction policy of a copy to shared memory wrongly, so copies have none.
TEST_F(SoftmaxNvrtc, CopiesToSharedMemoryHaveNoEvictionPolicy) {
  for (const char* load : {"evict_first", "evict_last"}) {
    const std::string ptx =
        ptx_of("softmax_backward", "rows=126,cols=299456",
               std::string("variant=grid,threads=256,blocks_per_row=13,register_vectors=11,min_blocks=2,load=") + load);
    EXPECT_GT(count_of(ptx, "cp.async.cg.shared.global"), 0U);
    EXPECT_EQ(count_of(ptx, "cp.async.cg.shared.global.L2::cache_hint"), 0U);
    EXPECT_GT(count_of(ptx, "ld.global.L2::cache_hint"), 0U);
  }
}

// The number of loads, copies and stores equals the vectors per thread: nothing is read or written twice.
TEST_F(SoftmaxNvrtc, ResidentRowsAreReadOnce) {
  struct Expectation {
    const char *fields, *config;
    std::size_t loads, copies, stores;  ///< per thread and array
  };
  const Expectation expectations[] = {
      {"rows=64,cols=1024", "variant=warp,lanes=32,threads=64", 8, 0, 8},
      {"rows=64,cols=8192", "variant=block,threads=256", 8, 0, 8},
      {"rows=64,cols=16384,dtype=bf16", "variant=block,threads=512,registers=packed", 4, 0, 4},
      {"rows=64,cols=24576", "variant=hybrid,threads=512,register_vectors=4,min_blocks=1", 4, 8, 12},
      {"rows=64,cols=65536", "variant=cluster,blocks_per_row=8,threads=256,register_vectors=3,min_blocks=1", 3, 5, 8},
      {"rows=64,cols=65536", "variant=cluster,blocks_per_row=4,threads=512,register_vectors=0,min_blocks=1", 0, 8, 8},
      {"rows=4,cols=131072", "variant=grid,blocks_per_row=16,threads=512,register_vectors=4,min_blocks=1", 4, 0, 4},
      {"rows=4,cols=131072", "variant=grid,blocks_per_row=16,threads=512,register_vectors=1,min_blocks=1", 1, 3, 4},
  };
  for (const std::string_view op : test::softmax_ops)
    for (const Expectation& expected : expectations) {
      const std::string ptx = ptx_of(op, expected.fields, std::string(expected.config) + ",load=plain,store=plain");
      SCOPED_TRACE(std::string(op) + " " + expected.fields + " " + expected.config);
      const std::size_t times = op.ends_with("backward") ? 2 : 1;
      EXPECT_EQ(count_of(ptx, "ld.global.v4.b32"), times * expected.loads);
      EXPECT_EQ(count_of(ptx, "ld.global."), times * expected.loads);
      EXPECT_EQ(count_of(ptx, "cp.async.cg.shared.global"), times * expected.copies);
      EXPECT_EQ(count_of(ptx, "cp.async.ca.shared.global"), 0U);
      EXPECT_EQ(count_of(ptx, "st.global.v4.b32"), expected.stores);
      EXPECT_EQ(count_of(ptx, "st.global."), expected.stores);
    }
}

// If only some threads have a last vector, its load is predicated. With a branch it would be issued only after the other
// loads have completed.
TEST_F(SoftmaxNvrtc, LoadsOfARowHaveNoBranches) {
  for (const auto& [fields, config] : {std::pair{"rows=9,cols=11008", "variant=block,threads=320"},
                                       {"rows=9,cols=30001", "variant=block,threads=1024"},
                                       {"rows=9,cols=781,dtype=bf16", "variant=warp,lanes=32,access=vectors"},
                                       {"rows=9,cols=12672,dtype=f16", "variant=block,threads=256"}}) {
    const std::string ptx = ptx_of("softmax", fields, std::string(config) + ",load=streaming");
    const std::size_t first = ptx.find("ld.global.cs"), last = ptx.rfind("ld.global.cs");
    ASSERT_NE(first, std::string::npos) << fields;
    EXPECT_EQ(ptx.substr(first, last - first).find("bra"), std::string::npos) << fields << " " << config;
  }
}

// A cluster barrier has fences, and its wait empties L1: one only waits until all blocks have started, without a release.
TEST_F(SoftmaxNvrtc, BlocksOfAClusterExchangeMessagesThatABarrierCounts) {
  for (const std::string_view op : test::softmax_ops) {
    const std::string ptx = ptx_of(source_of(op, "rows=64,cols=65536", "variant=cluster", "sm_90a"));
    EXPECT_EQ(count_of(ptx, "barrier.cluster.arrive"), 1U) << op;
    EXPECT_EQ(count_of(ptx, "barrier.cluster.arrive.relaxed"), 1U) << op;
    EXPECT_EQ(count_of(ptx, "barrier.cluster.wait"), 1U) << op;
    EXPECT_GE(count_of(ptx, "st.async.shared::cluster.mbarrier::complete_tx::bytes"), 1U) << op;
    EXPECT_GE(count_of(ptx, "mbarrier.try_wait.parity.acquire.cluster"), 1U) << op;
    EXPECT_EQ(count_of(ptx, ".relaxed.gpu"), 0U) << op;
  }
}

TEST_F(SoftmaxNvrtc, BlocksOfAClusterExchangeThroughSharedMemoryElsewhere) {
  for (const std::string_view op : test::softmax_ops) {
    const std::string ptx = ptx_of(source_of(op, "rows=64,cols=65536", "variant=cluster", "sm_90"));
    EXPECT_GE(count_of(ptx, "barrier.cluster.arrive"), 2U) << op;
    EXPECT_GE(count_of(ptx, "barrier.cluster.wait"), 2U) << op;
    EXPECT_GE(count_of(ptx, "mapa"), 1U) << op;
    EXPECT_EQ(count_of(ptx, "st.async"), 0U) << op;
    EXPECT_EQ(count_of(ptx, ".relaxed.gpu"), 0U) << op;
  }
}

TEST_F(SoftmaxNvrtc, BlocksOfAGridExchangeTaggedWordsWithoutFences) {
  for (const std::string_view op : test::softmax_ops) {
    const Source source = source_of(op, "rows=4,cols=131072", "variant=grid", "sm_90a");
    const std::string ptx = ptx_of(source);
    EXPECT_GE(count_of(ptx, "st.relaxed.gpu.global.b64"), 1U) << op;
    EXPECT_GE(count_of(ptx, "ld.relaxed.gpu.global.b64"), 1U) << op;
    for (const char* costly : {"fence", "membar", "atom.global", "red.global", "barrier.cluster"})
      EXPECT_EQ(count_of(ptx, costly), 0U) << costly;
    for (const KernelLaunch& kernel :
         source.c.op().parse(source.c.problem)->launch_plan(source.c.config, generic_device(source.arch)).kernels)
      EXPECT_TRUE(kernel.cooperative);
  }
}

// Rows of 781 elements are not aligned. Accesses have the configured width; a pair that crosses the end of a row becomes a
// single element.
TEST_F(SoftmaxNvrtc, NarrowAccessesHaveTheConfiguredWidth) {
  struct Expectation {
    const char *dtype, *access;
    std::vector<const char*> widths;  ///< the widest first
  };
  const Expectation expectations[] = {{"bf16", "pairs", {".b32", ".b16"}},
                                      {"f16", "pairs", {".b32", ".b16"}},
                                      {"f32", "pairs", {".v2.b32", ".b32"}},
                                      {"bf16", "elements", {".b16"}},
                                      {"f32", "elements", {".b32"}}};
  for (const std::string_view op : test::softmax_ops)
    for (const Expectation& expected : expectations) {
      const std::string ptx = ptx_of(op, std::string("rows=4096,cols=781,dtype=") + expected.dtype,
                                     std::string("variant=warp,lanes=32,load=plain,store=plain,access=") + expected.access);
      for (const char* kind : {"ld.global", "st.global"}) {
        SCOPED_TRACE(std::string(op) + " " + expected.dtype + " " + expected.access + " " + kind);
        std::size_t known = 0;
        for (const char* width : expected.widths) known += count_of(ptx, std::string(kind) + width + " ");
        EXPECT_EQ(known, count_of(ptx, kind));
        EXPECT_GE(count_of(ptx, std::string(kind) + expected.widths.front() + " "), 12U);  // 781 / 32 / 2
      }
    }
}

TEST_F(SoftmaxNvrtc, NvccCompilesASample) {
  if (!has_nvcc()) GTEST_SKIP() << "nvcc is not installed";
  // One of each main template, with options; also with the host pass, as part of another program.
  for (const auto& [op, fields, config] :
       {std::tuple{"softmax", "rows=4096,cols=32000,dtype=bf16", "variant=block"},
        {"log_softmax", "rows=4096,cols=65536,mask=add,mask_dtype=f16,causal=1,safe=1", "variant=cluster"},
        {"softmax", "rows=4096,cols=781,dtype=f16,out_dtype=bf16", "variant=warp,lanes=32,access=pairs"},
        {"log_softmax", "rows=1,cols=2000000,valid_cols=1", "variant=split"},
        {"softmax_backward", "rows=16,cols=131072,dtype=f16,out_dtype=f32", "variant=grid"},
        {"log_softmax_backward", "rows=4096,cols=100000,mask=keep,safe=1", "variant=two_pass"}})
    EXPECT_TRUE(nvcc_takes(source_of(op, fields, config, "sm_90a"), "-arch=sm_90a -cubin")) << op << " " << config;
  EXPECT_TRUE(nvcc_takes(source_of("softmax", "rows=4096,cols=513,dtype=f16,out_dtype=f32", "variant=warp", "sm_80"),
                         "-arch=sm_80 -c"));
}

// A resident column is read once and written once, in vectors of 16 bytes.
TEST_F(SoftmaxNvrtc, ResidentColumnsAreReadOnce) {
  for (const auto& [fields, vectors] :
       {std::pair{"rows=8,cols=24,inner=4096", 24U}, {"rows=8,cols=40,inner=4096,dtype=bf16", 40U}}) {
    const std::string ptx = ptx_of("softmax", fields, "variant=resident,threads=64,lanes=64,load=plain,store=plain");
    EXPECT_EQ(count_of(ptx, "ld.global.v4.b32"), vectors) << fields;
    EXPECT_EQ(count_of(ptx, "ld.global."), vectors) << fields;
    EXPECT_EQ(count_of(ptx, "st.global.v4.b32"), vectors) << fields;
    EXPECT_EQ(count_of(ptx, "bar.sync"), 0U) << fields;  // no thread shares its columns
  }
}

}  // namespace
}  // namespace tunesmith
