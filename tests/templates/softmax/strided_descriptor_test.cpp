// Descriptors of softmax over a dimension that is not the last: layouts, keys.

#include <gtest/gtest.h>

#include "tests/support/cases.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

using test::normalized;

TEST(StridedSoftmax, ArraysAreThreeDimensional) {
  const ParsedProblemPtr problem = find_op("softmax").parse(
      {"softmax", {{"rows", 2}, {"cols", 5}, {"inner", 6}, {"x_col_stride", 8}, {"x_row_stride", 100}}});
  const std::vector<ArrayInfo> arrays = problem->arrays();
  EXPECT_EQ(arrays[0].shape, (std::vector<std::int64_t>{2, 5, 6}));
  EXPECT_EQ(arrays[0].strides, (std::vector<std::int64_t>{100, 8, 1}));
  EXPECT_EQ(arrays[1].strides, (std::vector<std::int64_t>{30, 6, 1}));
  EXPECT_EQ(find_op("softmax").infer_fields({{"inner", 6}}, "x", arrays[0].shape),
            (Fields{{"rows", 2}, {"cols", 5}, {"inner", 6}}));
}

TEST(StridedSoftmax, AdjacentColumnsKeepTheirNormalFormAndSource) {
  const Problem plain = normalized("softmax", "rows=4,cols=64");
  EXPECT_EQ(plain, normalized("softmax", "rows=4,cols=64,inner=1,x_col_stride=1,y_inner_stride=1"));
  EXPECT_EQ(plain.text().find("inner"), std::string::npos);
  SoftmaxProblem typed = SoftmaxProblem::contiguous(4, 64, DType::f32);
  EXPECT_FALSE(typed.strided());
  typed.x_col_stride = 2;
  EXPECT_TRUE(typed.strided());
}

TEST(StridedSoftmax, KeysSeparateLayoutsButNotNumbersOfRows) {
  const auto key = [](const std::string& fields) {
    const Problem problem = normalized("softmax", fields);
    return find_op("softmax").parse(problem)->key();
  };
  const KeyParts plain = key("rows=4,cols=100"), strided = key("rows=4,cols=100,inner=64");
  EXPECT_NE(plain.problem_class, strided.problem_class);
  EXPECT_EQ(strided.problem_class, key("rows=40,cols=100,inner=64").problem_class);
  EXPECT_EQ(strided.problem_class, key("rows=4,cols=100,inner=4096").problem_class);
  EXPECT_NE(strided.problem_class, key("rows=4,cols=100,inner=4").problem_class);
  EXPECT_NE(strided.problem_class, key("rows=4,cols=100,inner=65").problem_class);
  EXPECT_NE(strided.problem_class, key("rows=4,cols=100,inner=64,safe=1").problem_class);
}

}  // namespace
}  // namespace tunesmith
