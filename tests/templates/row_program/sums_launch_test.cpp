// The persistent grids of row programs with sums over rows: as many blocks as are resident.

#include <gtest/gtest.h>

#include "templates/render.h"
#include "templates/row/config.h"
#include "tests/templates/row_program/op_cases.h"

namespace tunesmith {
namespace {

const DeviceInfo& hopper() {
  static const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  return device;
}

ParsedProblemPtr gradient(const std::string& fields) {
  return find_op("layer_norm_gradient").parse({"layer_norm_gradient", parse_fields(fields, "problem")});
}

Config completed(const ParsedProblem& problem, const std::string& config) {
  return problem.complete_config(hopper(), Config{parse_fields(config, "config")});
}

// A lane that has twice the columns has twice the sums, and fewer warps fit.
TEST(RowProgramSums, PinnedWarpsGetTheBlocksThatAreResident) {
  const ParsedProblemPtr problem = gradient("rows=100000,cols=128,dtype=f32");
  const auto blocks = [&](const std::string& config) {
    return row::TypedConfig::parse(completed(*problem, config)).min_blocks;
  };
  const std::string warps = "variant=warp,threads=128,load=plain,store=plain,lanes=";
  EXPECT_EQ(blocks(warps + "16"), 6);
  EXPECT_EQ(blocks(warps + "8"), 4);
  EXPECT_EQ(blocks(warps + "8,min_blocks=2"), 2);
}

TEST(RowProgramSums, TheGridHasTheBlocksThatBoundTheRegisters) {
  const ParsedProblemPtr problem = gradient("rows=100000,cols=128,dtype=f32");
  for (const int blocks : {2, 4, 6}) {
    const Config config = completed(*problem, "variant=warp,threads=128,lanes=16,min_blocks=" + std::to_string(blocks));
    EXPECT_NE(render(*problem, config).find("__launch_bounds__(128, " + std::to_string(blocks) + ")"), std::string::npos);
    const LaunchPlan plan = problem->launch_plan(config, hopper());
    EXPECT_EQ(plan.kernels.front().grid.count(), blocks * hopper().sm_count);
  }
}

TEST(RowProgramSums, FewRowsHaveAsManyBlocksAsTheyFill) {
  const ParsedProblemPtr problem = gradient("rows=33,cols=128,dtype=f32");
  const LaunchPlan plan = problem->launch_plan(completed(*problem, "variant=warp,threads=128,lanes=16"), hopper());
  EXPECT_EQ(plan.kernels.front().grid.count(), 5);  // of 8 rows
}

// Every candidate of a search, too.
TEST(RowProgramSums, CandidatesBoundTheirRegisters) {
  const ParsedProblemPtr problem = gradient("rows=100000,cols=128,dtype=bf16");
  int warps = 0;
  for (const Config& candidate : problem->search_space(hopper(), Effort::full)) {
    const row::TypedConfig config = row::TypedConfig::parse(candidate);
    if (config.variant != row::Variant::warp) continue;
    ++warps;
    EXPECT_TRUE(candidate.fields.contains("min_blocks") || config.threads >= 256) << candidate.text();
  }
  EXPECT_GT(warps, 10);
}

}  // namespace
}  // namespace tunesmith
