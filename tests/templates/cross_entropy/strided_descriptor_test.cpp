// Descriptors of cross-entropy over a dimension that is not the last: layouts, keys, launches.

#include <gtest/gtest.h>

#include "tests/support/cases.h"

namespace tunesmith {
namespace {

using test::normalized;

DeviceInfo strided_hopper() { return generic_device(parse_arch("sm_90a")); }

TEST(StridedCrossEntropy, ArraysHaveTheirDimensions) {
  const ParsedProblemPtr problem = find_op("cross_entropy")
                                       .parse({"cross_entropy",
                                               {{"rows", 2},
                                                {"cols", 5},
                                                {"inner", 6},
                                                {"logits_col_stride", 8},
                                                {"logits_row_stride", 100},
                                                {"reduction", std::string("none")},
                                                {"gradient", std::string("separate")},
                                                {"dloss", std::string("row")}}});
  const std::vector<ArrayInfo> arrays = problem->arrays();
  EXPECT_EQ(arrays[0].shape, (std::vector<std::int64_t>{2, 5, 6}));
  EXPECT_EQ(arrays[0].strides, (std::vector<std::int64_t>{100, 8, 1}));
  for (const std::size_t of_rows : {1U, 2U, 3U, 4U})
    EXPECT_EQ(arrays[of_rows].shape, (std::vector<std::int64_t>{2, 6})) << arrays[of_rows].name;
  EXPECT_EQ(arrays.back().strides, (std::vector<std::int64_t>{30, 6, 1}));
  EXPECT_EQ(find_op("cross_entropy").infer_fields({{"inner", 6}}, "logits", arrays[0].shape),
            (Fields{{"rows", 2}, {"cols", 5}, {"inner", 6}}));
}

TEST(StridedCrossEntropy, AdjacentColumnsKeepTheirNormalForm) {
  for (const char* op : {"cross_entropy", "cross_entropy_backward"}) {
    const Problem plain = normalized(op, "rows=4,cols=64");
    EXPECT_EQ(plain, normalized(op, "rows=4,cols=64,inner=1,logits_col_stride=1,logits_inner_stride=1"));
    EXPECT_EQ(plain.text().find("inner"), std::string::npos);
    EXPECT_EQ(plain.text().find("col_stride"), std::string::npos);
  }
  // Without a gradient, the layout of dlogits does not matter.
  EXPECT_EQ(normalized("cross_entropy", "rows=4,cols=64,inner=3"),
            normalized("cross_entropy", "rows=4,cols=64,inner=3,dlogits_col_stride=5,dlogits_row_stride=320"));
  EXPECT_EQ(normalized("cross_entropy", "rows=4,cols=64"),
            normalized("cross_entropy", "rows=4,cols=64,dlogits_col_stride=5,dlogits_row_stride=320"));
}

TEST(StridedCrossEntropy, KeysSeparateLayoutsAndOptions) {
  const auto key = [](const std::string& fields) {
    return find_op("cross_entropy").parse(normalized("cross_entropy", fields))->key();
  };
  const KeyParts plain = key("rows=4,cols=100"), strided = key("rows=4,cols=100,inner=64");
  EXPECT_NE(plain.problem_class, strided.problem_class);
  EXPECT_EQ(strided.problem_class, key("rows=40,cols=100,inner=64").problem_class);
  EXPECT_EQ(strided.problem_class, key("rows=4,cols=100,inner=4096").problem_class);
  EXPECT_NE(strided.problem_class, key("rows=4,cols=100,inner=4").problem_class);
  EXPECT_NE(strided.problem_class, key("rows=4,cols=100,inner=64,gradient=separate").problem_class);
  EXPECT_NE(strided.problem_class, key("rows=4,cols=100,inner=64,label_smoothing=0.1").problem_class);
}

TEST(StridedCrossEntropy, ReductionsCountPositions) {
  const auto plan = [](const char* fields) {
    const test::Case c = test::case_of("cross_entropy", fields, strided_hopper(), "variant=resident");
    return c.op().parse(c.problem)->launch_plan(c.config, strided_hopper());
  };
  const LaunchPlan few = plan("rows=1,cols=10,inner=100,gradient=separate");
  ASSERT_EQ(few.kernels.size(), 3U);
  EXPECT_EQ(few.kernels[0].entry, "cross_entropy_count");
  EXPECT_EQ(few.kernels[few.main_kernel].entry, "cross_entropy");
  const LaunchPlan many = plan("rows=3,cols=10,inner=4096");
  ASSERT_EQ(many.kernels.size(), 3U);
  EXPECT_EQ(many.kernels[1].entry, "cross_entropy_sum_partials");
  EXPECT_EQ(many.kernels[1].grid.x, 3U);
  EXPECT_EQ(plan("rows=0,cols=10,inner=4096").kernels.size(), 1U) << "the mean of no rows is NaN";
}

}  // namespace
}  // namespace tunesmith
