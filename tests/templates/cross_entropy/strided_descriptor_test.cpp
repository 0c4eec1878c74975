// Descriptors of cross-entropy over a dimension that is not the last: layouts, keys, errors, launches, problems to verify.

#include <gtest/gtest.h>

#include "templates/render.h"
#include "tests/templates/softmax/cases.h"
#include "tunesmith/cross_entropy.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::normalized;

DeviceInfo strided_hopper() { return generic_device(parse_arch("sm_90a")); }

void expect_error(std::string_view op, const std::string& fields, std::initializer_list<const char*> parts) {
  std::string message;
  try {
    message = "accepted as " + normalized(op, fields).text();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    message = error.what();
  }
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << op << " " << fields << ": " << message;
}

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

TEST(StridedCrossEntropy, RejectsWhatKernelsDoNotHave) {
  expect_error("cross_entropy", "rows=4,cols=4,inner=0", {"inner is 0", "1"});
  expect_error("cross_entropy", "rows=4,cols=4,inner=2,gradient=separate,dlogits_col_stride=1",
               {"dlogits is an output", "share an address"});
  expect_error("cross_entropy_backward", "rows=4,cols=4,inner=2,dlogits_row_stride=7", {"dlogits is an output", "7, 2, 1"});
  expect_error("cross_entropy", "rows=4,cols=4,inner=2,gradient=in_place,logits_col_stride=3,logits_row_stride=12",
               {"in_place", "12, 3, 1"});
  expect_error("cross_entropy", "rows=4,cols=4,inner=2,gradient=in_place,out_dtype=bf16", {"in_place", "bf16"});
  expect_error("cross_entropy", "rows=4,cols=2147483647,inner=2147483647", {"2^56"});
  expect_error("cross_entropy_shard", "rows=4,cols=4,inner=2", {"inner", "cross_entropy_shard"});
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

TEST(StridedCrossEntropy, SearchSpacesAreValidAndStartWithTheDefault) {
  for (const char* op : {"cross_entropy", "cross_entropy_backward"})
    for (const char* fields :
         {"rows=8,cols=21,inner=262144", "rows=8,cols=19,inner=131072,dtype=bf16", "rows=16,cols=128256,inner=4,dtype=bf16",
          "rows=2000,cols=60,logits_col_stride=2000,"
          "logits_row_stride=1"}) {
      const ParsedProblemPtr problem = find_op(op).parse(normalized(op, fields));
      for (const Effort effort : {Effort::quick, Effort::full}) {
        const std::vector<Config> space = problem->search_space(strided_hopper(), effort);
        ASSERT_FALSE(space.empty());
        EXPECT_EQ(space.front(), problem->default_config(strided_hopper()));
        EXPECT_LE(space.size(), effort == Effort::quick ? 60U : 300U) << fields;
        for (const Config& config : space) EXPECT_EQ(problem->why_invalid(strided_hopper(), config), "") << config.text();
      }
    }
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
