// Generated sources of rms_norm: NVRTC compiles them for every architecture, and a row that stays on the chip is read once.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/source_compilation.h"
#include "tests/templates/rms_norm/cases.h"

namespace tunesmith {
namespace {

using test::archs;
using test::count_of;

class RmsNormNvrtc : public test::SourceCompilation {};

TEST_F(RmsNormNvrtc, EdgeProblemsCompile) {
  std::vector<Source> sources;
  std::uint64_t seed = 1;
  std::vector<Problem> problems = test::rms_norm_problems(100);
  for (const Problem& problem : test::f64_rms_norm_problems(100)) problems.push_back(problem);
  for (const Problem& problem : problems) {
    const Arch arch = parse_arch(archs[seed % std::size(archs)]);
    for (const Config& config : test::sample_space(problem, generic_device(arch), 1, seed++))
      sources.push_back(source_of({problem, config}, arch));
  }
  compile_covering(sources);
}

TEST_F(RmsNormNvrtc, EveryVariantCompilesForEveryArchitectureThatHasIt) {
  std::vector<Source> sources;
  std::map<std::string, std::set<std::string>> archs_of;
  const char* const shapes[] = {"rows=9,cols=781,dtype=bf16,weight=1", "rows=9,cols=24576,dtype=f16,out_dtype=f32,weight=1",
                                "rows=9,cols=131072,dtype=bf16,weight=1,weight_dtype=f32,rstd=1"};
  std::size_t turn = 0;
  for (const char* arch_name : archs) {
    const Arch arch = parse_arch(arch_name);
    std::set<std::string> variants;
    for (const char* fields : shapes) {
      const Problem problem = test::normalized("rms_norm", fields);
      std::map<std::string, std::vector<Config>> by_variant;
      for (const Config& config : find_op("rms_norm").parse(problem)->search_space(generic_device(arch), Effort::full))
        by_variant[config.variant()].push_back(config);
      for (const auto& [variant, configs] : by_variant) {
        archs_of[variant].insert(arch_name);
        if (variants.insert(variant).second)
          sources.push_back(source_of({problem, configs[turn++ * 7 % configs.size()]}, arch));
      }
    }
  }
  const std::set<std::string> all(std::begin(archs), std::end(archs));
  std::set<std::string> from_80 = all;
  from_80.erase("sm_75");
  for (const char* variant : {"warp", "block", "grid", "two_pass", "split"}) EXPECT_EQ(archs_of[variant], all) << variant;
  EXPECT_EQ(archs_of["hybrid"], from_80);
  EXPECT_EQ(archs_of["cluster"], (std::set<std::string>{"sm_90a", "sm_100a", "sm_120a"}));
  compile_covering(sources);
}

TEST_F(RmsNormNvrtc, EveryVariantOfF64CompilesForEveryArchitectureThatHasIt) {
  std::vector<Source> sources;
  std::map<std::string, std::size_t> archs_of;
  std::size_t turn = 0;
  for (const char* arch_name : archs) {
    const Arch arch = parse_arch(arch_name);
    std::set<std::string> variants;
    for (const char* fields : {"rows=9,cols=781,dtype=f64", "rows=9,cols=12289,dtype=f64,weight=1,rstd=1"}) {
      const Problem problem = test::normalized("rms_norm", fields);
      std::map<std::string, std::vector<Config>> by_variant;
      for (const Config& config : find_op("rms_norm").parse(problem)->search_space(generic_device(arch), Effort::full))
        by_variant[config.variant()].push_back(config);
      for (const auto& [variant, configs] : by_variant) {
        variants.insert(variant);
        sources.push_back(source_of({problem, configs[turn++ * 7 % configs.size()]}, arch));
      }
    }
    for (const std::string& variant : variants) ++archs_of[variant];
  }
  const std::size_t all = std::size(archs);
  EXPECT_EQ(archs_of, (std::map<std::string, std::size_t>{{"warp", all},
                                                          {"block", all},
                                                          {"hybrid", all - 1},  // not sm_75
                                                          {"cluster", 3},
                                                          {"grid", all},
                                                          {"two_pass", all},
                                                          {"split", all}}));
  compile_covering(sources);
}

// Loads and stores of x, y and weight equal the vectors per thread: nothing is read or written twice.
TEST_F(RmsNormNvrtc, ResidentRowsAreReadOnce) {
  struct Expectation {
    const char *fields, *config;
    std::size_t loads, copies, weights, stores;  ///< per thread
  };
  const Expectation expectations[] = {
      {"rows=64,cols=1024", "variant=warp,lanes=32,threads=64", 8, 0, 0, 8},
      {"rows=64,cols=8192,weight=1", "variant=block,threads=256", 8, 0, 8, 8},
      {"rows=64,cols=16384,dtype=bf16,weight=1", "variant=block,threads=512,registers=packed", 4, 0, 4, 4},
      {"rows=64,cols=16384,dtype=bf16,weight=1,weight_dtype=f32", "variant=block,threads=512", 4, 0, 8, 4},
      {"rows=64,cols=24576", "variant=hybrid,threads=512,register_vectors=4,min_blocks=1", 4, 8, 0, 12},
      {"rows=64,cols=4096,dtype=f64,weight=1", "variant=block,threads=256", 8, 0, 8, 8},
      {"rows=64,cols=65536", "variant=cluster,blocks_per_row=8,threads=256,register_vectors=3,min_blocks=1", 3, 5, 0, 8},
  };
  for (const Expectation& expected : expectations) {
    const std::string ptx =
        ptx_of("rms_norm", expected.fields, std::string(expected.config) + ",load=streaming,store=plain");
    SCOPED_TRACE(std::string(expected.fields) + " " + expected.config);
    EXPECT_EQ(count_of(ptx, "ld.global.cs.v4.b32"), expected.loads);
    EXPECT_EQ(count_of(ptx, "ld.global.nc.L1::evict_last.v4.b32"), expected.weights) << "before the reduction";
    EXPECT_EQ(count_of(ptx, "ld.global."), expected.loads + expected.weights);
    EXPECT_EQ(count_of(ptx, "cp.async.cg.shared.global"), expected.copies);
    EXPECT_EQ(count_of(ptx, "st.global.v4.b32"), expected.stores);
    EXPECT_EQ(count_of(ptx, "st.global."), expected.stores + 1);  // and rstd, where there is one
  }
}

TEST_F(RmsNormNvrtc, NvccCompilesASample) {
  if (!has_nvcc()) GTEST_SKIP() << "nvcc is not installed";
  for (const char* config : {"variant=block", "variant=split"})
    EXPECT_TRUE(nvcc_takes(source_of("rms_norm", "rows=4096,cols=5003,dtype=bf16,weight=1", config, "sm_90a"),
                           "-arch=sm_90a -cubin"))
        << config;
  for (const char* config : {"variant=warp", "variant=block", "variant=hybrid", "variant=cluster,blocks_per_row=2",
                             "variant=grid", "variant=two_pass", "variant=split"}) {
    const bool is_short = std::string(config) == "variant=warp";
    const std::string fields = "rows=4096,dtype=f64,weight=1,rstd=1,cols=" + std::to_string(is_short ? 61 : 12001);
    EXPECT_TRUE(nvcc_takes(source_of("rms_norm", fields, config, "sm_90a"), "-arch=sm_90a -cubin")) << config;
  }
}

}  // namespace
}  // namespace tunesmith
