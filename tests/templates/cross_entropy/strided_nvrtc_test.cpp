// Sources of cross-entropy over a dimension that is not the last: NVRTC compiles them for every architecture, and columns
// are accessed once, in vectors.

#include <gtest/gtest.h>

#include "tests/support/source_compilation.h"
#include "tests/templates/cross_entropy/strided_cases.h"

namespace tunesmith {
namespace {

using test::archs;
using test::count_of;

class StridedCrossEntropyNvrtc : public test::SourceCompilation {};

TEST_F(StridedCrossEntropyNvrtc, EveryOptionCompiles) {
  std::vector<Source> sources;
  std::uint64_t seed = 1;
  for (const Problem& problem : test::strided_cross_entropy_problems()) {
    const Arch arch = parse_arch(archs[seed % std::size(archs)]);
    for (const Config& config : test::sample_space(problem, generic_device(arch), 1, seed++))
      sources.push_back(source_of({problem, config}, arch));
  }
  compile_covering(sources);
}

TEST_F(StridedCrossEntropyNvrtc, EveryVariantCompilesForEveryArchitectureThatHasIt) {
  std::vector<Source> sources;
  for (std::size_t a = 0; a < std::size(archs); ++a) {
    const Arch arch = parse_arch(archs[a]);
    const std::vector<test::Case> cases = test::strided_cross_entropy_variants(generic_device(arch));
    for (std::size_t i = a % 3; i < cases.size(); i += 3) sources.push_back(source_of(cases[i], arch));
  }
  compile_covering(sources);
}

// Columns are read once and, for the gradient, written once, in vectors of four positions, and no thread waits for another.
TEST_F(StridedCrossEntropyNvrtc, ResidentColumnsAreReadOnce) {
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
