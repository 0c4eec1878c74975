// Sources of softmax over a dimension that is not the last: NVRTC compiles them for every architecture, and a warp's
// accesses are vectors.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/source_compilation.h"
#include "tests/templates/softmax/strided_cases.h"

namespace tunesmith {
namespace {

using test::archs;
using test::count_of;

class StridedSoftmaxNvrtc : public test::SourceCompilation {};

TEST_F(StridedSoftmaxNvrtc, EveryVariantCompilesForEveryArchitecture) {
  std::vector<Source> sources;
  std::set<std::string> seen;
  std::size_t turn = 0;
  for (const char* arch_name : archs)
    for (const std::string_view op : test::softmax_ops)
      for (const char* fields : {"rows=8,cols=21,inner=262144,dtype=bf16", "rows=32,cols=1000,inner=3136",
                                 "rows=16,cols=128256,inner=4,dtype=f16,out_dtype=f32,scale=0.125,safe=1"}) {
        const Arch arch = parse_arch(arch_name);
        const Problem problem = test::normalized(op, fields);
        std::map<std::string, std::vector<Config>> by_variant;
        for (const Config& config : find_op(op).parse(problem)->search_space(generic_device(arch), Effort::full))
          by_variant[config.variant()].push_back(config);
        for (const auto& [variant, configs] : by_variant) {
          if (!seen.insert(std::string(arch_name) + std::string(op) + variant).second) continue;
          sources.push_back(source_of({problem, configs[turn++ * 5 % configs.size()]}, arch));
        }
      }
  // Clusters from sm_90 on: three of the architectures.
  EXPECT_EQ(seen.size(), (std::size(archs) * 3 + 3) * test::softmax_ops.size());
  compile_covering(sources);
}

TEST_F(StridedSoftmaxNvrtc, EveryLayoutCompiles) {
  std::vector<Source> sources;
  std::uint64_t seed = 1;
  for (const Problem& problem : test::strided_problems(100)) {
    const Arch arch = parse_arch(archs[seed % 7]);
    for (const Config& config : test::sample_space(problem, generic_device(arch), 1, seed++))
      sources.push_back(source_of({problem, config}, arch));
  }
  compile_covering(sources);
}

// A resident column is read once and written once, in vectors of 16 bytes.
TEST_F(StridedSoftmaxNvrtc, ResidentColumnsAreReadOnce) {
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
