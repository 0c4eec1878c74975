// What transfers from one n_cols to another, and how far apart configurations are.

#include "tuner/traits.h"

#include <gtest/gtest.h>

namespace tunesmith {
namespace {

Config parsed(const std::string& text) { return {parse_fields(text, "config")}; }

double steps(const std::string& a, std::int64_t n_cols_a, const std::string& b, std::int64_t n_cols_b) {
  const double there = steps_between(traits_of(parsed(a), n_cols_a), traits_of(parsed(b), n_cols_b));
  const double back = steps_between(traits_of(parsed(b), n_cols_b), traits_of(parsed(a), n_cols_a));
  EXPECT_NEAR(there, back, 1e-12) << a << " and " << b;
  return there;
}

TEST(Traits, BlocksThatHoldEqualPartsOfARowAreAlike) {
  EXPECT_NEAR(steps("variant=block,threads=64,min_blocks=16", 2048, "variant=block,threads=128,min_blocks=8", 4096), 0,
              1e-12);
  EXPECT_NEAR(steps("variant=block,threads=64,min_blocks=16", 2048, "variant=block,threads=64,min_blocks=16", 4096), 2,
              1e-12)
      << "twice the values per thread, and twice the resident elements";
  EXPECT_NEAR(steps("variant=warp,threads=128,lanes=16", 512, "variant=warp,threads=128,lanes=32", 1024), 0, 1e-12);
  EXPECT_NEAR(steps("variant=warp,threads=128,lanes=16", 512, "variant=warp,threads=256,lanes=16", 512), 1, 0.01);
  // Two blocks share a row of twice the columns; another number of blocks is a difference of its own.
  EXPECT_NEAR(steps("variant=cluster,threads=256,blocks_per_row=2,min_blocks=2", 32768,
                    "variant=cluster,threads=256,blocks_per_row=4,min_blocks=2", 65536),
              0.74, 0.01);
}

TEST(Traits, PackedRowsNeedHalfOfTheRegisters) {
  EXPECT_NEAR(steps("variant=block,threads=64,min_blocks=16,registers=packed", 4096,
                    "variant=block,threads=128,min_blocks=16,registers=float32", 4096),
              1, 1e-12)
      << "the format alone";
}

TEST(Traits, OtherKernelsKeepTheirNumbers) {
  EXPECT_NEAR(steps("variant=two_pass,threads=512,unroll=4", 65536, "variant=two_pass,threads=512,unroll=4", 131072), 0,
              1e-12);
  EXPECT_NEAR(steps("variant=split,warps=4,splits=0", 1024, "variant=split,warps=4,splits=0", 32768), 0, 1e-12);
  EXPECT_NEAR(steps("variant=split,warps=4,splits=0", 1024, "variant=split,warps=4,splits=15", 1024), 4, 1e-12);
  // Lanes along the other dimension: 256 / 32 threads share the columns of a position.
  EXPECT_NEAR(steps("variant=resident,threads=256,lanes=32", 64, "variant=resident,threads=512,lanes=32", 128), 0, 1e-12);
}

TEST(Traits, WordsAndMissingFieldsAreSteps) {
  EXPECT_EQ(steps("variant=a,load=plain", 1, "variant=a,load=evict_last", 1), 1);
  EXPECT_EQ(steps("variant=a,load=plain", 1, "variant=b,load=plain", 1), 2);
  EXPECT_EQ(steps("variant=a,width=7", 1, "variant=a", 1), 1);
  EXPECT_EQ(steps("variant=a,load=plain", 1, "variant=a", 1), 1);
  EXPECT_NEAR(steps("width=7", 1, "width=15", 1), 1, 1e-12);
}

}  // namespace
}  // namespace tunesmith
