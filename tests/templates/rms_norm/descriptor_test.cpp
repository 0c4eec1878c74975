// The description of rms_norm: normal form, arrays, keys, parameters.

#include <gtest/gtest.h>

#include <set>

#include "templates/render.h"
#include "tests/support/cases.h"

namespace tunesmith {
namespace {

Problem normalized(const std::string& fields) { return test::normalized("rms_norm", fields); }
ParsedProblemPtr parsed(const std::string& fields) { return find_op("rms_norm").parse(normalized(fields)); }

TEST(RmsNormDescription, FillsInDefaultsOnce) {
  const Problem plain = normalized("rows=3,cols=5");
  EXPECT_EQ(plain.text(),
            "rms_norm rows=3,cols=5,dtype=f32,out_dtype=f32,x_row_stride=5,y_row_stride=5,x_alignment=16,y_alignment=16,"
            "in_place=0");
  EXPECT_EQ(find_op("rms_norm").normalize(plain), plain);
  EXPECT_EQ(normalized("rows=3,cols=5,eps=1e-6,weight=0,rstd=0"), plain);
  EXPECT_NE(normalized("rows=3,cols=5,eps=0"), plain);
  const Problem weighted = normalized("rows=3,cols=5,dtype=bf16,weight=1");
  EXPECT_EQ(normalized("rows=3,cols=5,dtype=bf16,weight=1,weight_dtype=bf16,weight_offset=0,weight_alignment=64"), weighted);
}

TEST(RmsNormDescription, ArraysAreThoseOfTheOptions) {
  const auto names = [](const std::string& fields) {
    std::string text;
    for (const ArrayInfo& info : parsed(fields)->arrays())
      text += info.name + ":" + std::string(name(info.dtype)) + (info.input ? "<" : "") + (info.output ? ">" : "") +
              std::to_string(info.extent_bytes()) + " ";
    return text;
  };
  EXPECT_EQ(names("rows=6,cols=8,dtype=bf16,out_dtype=f32"), "x:bf16<96 y:f32>192 ");
  EXPECT_EQ(names("rows=6,cols=8,dtype=bf16,weight=1"), "x:bf16<96 y:bf16>96 weight:bf16<16 ");
  EXPECT_EQ(names("rows=6,cols=8,dtype=bf16,weight=1,weight_dtype=f32,rstd=1"),
            "x:bf16<96 y:bf16>96 weight:f32<32 rstd:f32>24 ");
  EXPECT_EQ(names("rows=6,cols=8,x_row_stride=0,rstd=1"), "x:f32<32 y:f32>192 rstd:f32>24 ");
}

TEST(RmsNormDescription, KeysTellApartWhatIsTunedApart) {
  const auto problem_class = [](const std::string& fields) { return parsed(fields)->key().problem_class; };
  const std::string plain = problem_class("rows=6,cols=64");
  EXPECT_EQ(problem_class("rows=6,cols=64,eps=0"), plain);  // a parameter of the launch
  EXPECT_EQ(problem_class("rows=6,cols=64,weight=1,weight_offset=1"), problem_class("rows=6,cols=64,weight=1"));
  std::set<std::string> all{plain};
  for (const char* options : {"dtype=bf16", "weight=1", "weight=1,weight_alignment=4", "dtype=bf16,weight=1",
                              "dtype=bf16,weight=1,weight_dtype=f32", "in_place=1", "rstd=1"})
    EXPECT_TRUE(all.insert(problem_class(std::string("rows=6,cols=64,") + options)).second) << options;
}

// Equal sources for problems that differ in values of parameters alone; addresses in the order of the arrays.
TEST(RmsNormDescription, ParametersAreNotPartOfTheSource) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const ParsedProblemPtr problem = parsed("rows=6,cols=1024,weight=1,weight_offset=0.5,eps=0.25,rstd=1");
  const Config config = problem->default_config(device);
  EXPECT_EQ(render(*parsed("rows=9,cols=1024,weight=1,eps=0,rstd=1"), config), render(*problem, config));
  EXPECT_NE(render(*parsed("rows=6,cols=1024"), config), render(*problem, config));
  EXPECT_EQ(render(*find_op("rms_norm").parse(problem->verification_problem()), config), render(*problem, config));

  const LaunchPlan plan = problem->launch_plan(config, device);
  ASSERT_EQ(plan.pointers.size(), 4U);
  const char* const names[] = {"x", "y", "weight", "rstd"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(plan.pointers[i].array, names[i]);
    EXPECT_EQ(plan.pointers[i].written, i % 2 == 1);
  }
}

TEST(RmsNormDescription, CountsTheLeastTraffic) {
  const Cost plain = parsed("rows=6,cols=8,dtype=bf16,out_dtype=f32")->cost();
  EXPECT_EQ(plain.bytes_read, 96);
  EXPECT_EQ(plain.bytes_written, 192);
  EXPECT_GE(plain.flops, 3 * 48);
  const Cost weighted = parsed("rows=6,cols=8,weight=1,rstd=1")->cost();
  EXPECT_EQ(weighted.bytes_read, 192 + 32);
  EXPECT_EQ(weighted.bytes_written, 192 + 24);
}

}  // namespace
}  // namespace tunesmith
