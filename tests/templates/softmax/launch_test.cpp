// Launches of the softmax family: grids, clusters, workspaces, parameters.

#include "templates/row/launch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "templates/render.h"
#include "tests/support/cases.h"

namespace tunesmith {
namespace {

using test::Case;
using test::softmax_ops;

DeviceInfo launch_h100() { return generic_device({9, 0, 'a'}); }

LaunchPlan plan_of(const Case& c) { return c.op().parse(c.problem)->launch_plan(c.config, launch_h100()); }
LaunchPlan plan_of(std::string_view op, const std::string& fields, const std::string& config) {
  return plan_of(test::case_of(op, fields, launch_h100(), config));
}

TEST(SoftmaxLaunch, GridCoversEveryRowOnce) {
  const LaunchPlan warp = plan_of("softmax", "rows=1000,cols=64", "variant=warp,lanes=8,threads=128");
  ASSERT_EQ(warp.kernels.size(), 1U);
  EXPECT_EQ(warp.kernels[0].grid.x, 63U);  // 16 rows per block
  EXPECT_EQ(warp.kernels[0].block.x, 128U);
  for (const std::string_view op : softmax_ops) {
    EXPECT_TRUE(plan_of(op, "rows=0,cols=64", "").kernels.empty());
    // Rows without columns have no elements.
    for (const char* fields : {"rows=3,cols=0", "rows=3,cols=0,inner=5", "rows=3,cols=0,inner=5,in_place=1",
                               "rows=3,cols=0,safe=1,scale=2,causal=1,dtype=bf16,out_dtype=f32"}) {
      EXPECT_TRUE(plan_of(op, fields, "").kernels.empty()) << fields;
      const ParsedProblemPtr problem = find_op(op).parse(test::normalized(op, fields));
      for (const ArrayInfo& array : problem->arrays()) EXPECT_EQ(array.elements(), 0) << fields;
      EXPECT_EQ(problem->arrays()[0].shape[0], 3) << fields;
      EXPECT_EQ(problem->cost().bytes(), 0) << fields;
    }
    for (const char* config :
         {"variant=block", "variant=hybrid,threads=128", "variant=cluster,threads=64,blocks_per_row=8,min_blocks=1"}) {
      const LaunchPlan folded = plan_of(op, "rows=5000000000,cols=8192", config);
      const KernelLaunch& kernel = folded.kernels.at(0);
      const std::uint64_t blocks = 5000000000U * kernel.cluster.count();
      EXPECT_GT(kernel.grid.y, 1U) << config;
      EXPECT_LE(kernel.grid.x, 2147483647U) << config;
      EXPECT_EQ(kernel.grid.x % kernel.cluster.x, 0U) << config;
      EXPECT_GE(kernel.grid.count(), blocks) << config;
      EXPECT_LT(kernel.grid.count(), blocks + std::uint64_t{kernel.grid.y} * kernel.cluster.x) << config;
    }
  }
}

TEST(SoftmaxLaunch, GridIsAMultipleOfTheCluster) {
  for (const std::string_view op : softmax_ops)
    for (const std::uint32_t blocks : {2U, 4U, 8U, 16U}) {
      const LaunchPlan plan = plan_of(
          op, "rows=77,cols=32768",
          "variant=cluster,blocks_per_row=" + std::to_string(blocks) + ",min_blocks=1,threads=512,register_vectors=0");
      ASSERT_EQ(plan.kernels.size(), 1U);
      EXPECT_EQ(plan.kernels[0].cluster, (Dim3{blocks, 1, 1}));
      EXPECT_EQ(plan.kernels[0].grid, (Dim3{77 * blocks, 1, 1}));
      EXPECT_FALSE(plan.kernels[0].cooperative);
      EXPECT_EQ(plan.workspace_bytes, 0);
      EXPECT_GT(plan.kernels[0].dynamic_smem_bytes, 0);
    }
}

TEST(SoftmaxLaunch, GridVariantIsCooperativeAndResident) {
  for (const std::string_view op : softmax_ops)
    for (const char* rows : {"1", "3", "100"}) {
      const Case c = test::case_of(op, std::string("rows=") + rows + ",cols=131072", launch_h100(), "variant=grid");
      const LaunchPlan plan = plan_of(c);
      ASSERT_EQ(plan.kernels.size(), 1U);
      const KernelLaunch& kernel = plan.kernels[0];
      const std::int64_t blocks = c.config.fields.integer("blocks_per_row");
      EXPECT_TRUE(kernel.cooperative);
      EXPECT_EQ(kernel.cluster, (Dim3{1, 1, 1}));
      EXPECT_EQ(kernel.grid.y, 1U);
      EXPECT_EQ(kernel.grid.x % blocks, 0);
      EXPECT_LE(kernel.grid.x, c.config.fields.integer("min_blocks") * launch_h100().sm_count);
      EXPECT_LE(kernel.grid.x / blocks, std::stoi(rows));                     // every group has a row
      EXPECT_EQ(plan.workspace_bytes, std::int64_t{kernel.grid.x} * 16 * 8);  // two sets of eight tagged words
    }
}

TEST(SoftmaxLaunch, SplitHasASecondKernel) {
  for (const std::string_view op : softmax_ops) {
    const LaunchPlan plan = plan_of(op, "rows=5,cols=1000000", "variant=split,blocks_per_row=40");
    ASSERT_EQ(plan.kernels.size(), 2U);
    EXPECT_EQ(plan.kernels[0].entry, std::string(op) + "_sums");
    EXPECT_EQ(plan.kernels[1].entry, op);
    EXPECT_EQ(plan.kernels[0].grid.x, 200U);
    EXPECT_EQ(plan.kernels[0].grid, plan.kernels[1].grid);
    EXPECT_EQ(plan.workspace_bytes, 200 * 16);
    EXPECT_FALSE(plan.kernels[0].cooperative);
  }
}

TEST(SoftmaxLaunch, OnlineMayBePersistent) {
  for (const std::string_view op : softmax_ops) {
    EXPECT_EQ(plan_of(op, "rows=5000,cols=100000", "variant=two_pass,blocks_per_sm=0").kernels.at(0).grid.x, 5000U);
    EXPECT_EQ(plan_of(op, "rows=5000,cols=100000", "variant=two_pass,blocks_per_sm=2").kernels.at(0).grid.x, 264U);
    EXPECT_EQ(plan_of(op, "rows=50,cols=100000", "variant=two_pass,blocks_per_sm=2").kernels.at(0).grid.x, 50U);
  }
}

TEST(SoftmaxLaunch, PointersHaveAlignmentExtentAndOffset) {
  const LaunchPlan forward = plan_of("softmax", "rows=10,cols=64,dtype=bf16,y_row_stride=100,x_alignment=4", "");
  ASSERT_EQ(forward.pointers.size(), 2U);
  EXPECT_EQ(forward.pointers[0].array, "x");
  EXPECT_EQ(forward.pointers[0].alignment, 4U);
  EXPECT_EQ(forward.pointers[0].extent_bytes, 10 * 64 * 2);
  EXPECT_EQ(forward.pointers[1].extent_bytes, (9 * 100 + 64) * 2);
  EXPECT_FALSE(forward.pointers[0].written);
  EXPECT_TRUE(forward.pointers[1].written);
  for (const auto& pointer : forward.pointers) EXPECT_EQ(pointer.in_place_of, -1) << pointer.array;

  const LaunchPlan backward = plan_of("log_softmax_backward", "rows=10,cols=64,in_place=1,mask=keep,valid_cols=1", "");
  const char* const names[] = {"dy", "y", "dx", "mask", "valid_cols"};
  const std::uint32_t offsets[] = {0, 8, 16, 24, 32};  // RowParams
  ASSERT_EQ(backward.pointers.size(), std::size(names));
  for (std::size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(backward.pointers[i].array, names[i]);
    EXPECT_EQ(backward.pointers[i].offset, offsets[i]) << names[i];
    EXPECT_EQ(backward.pointers[i].written, i == 2) << names[i];
  }
  EXPECT_EQ(backward.pointers[2].in_place_of, 0);
  EXPECT_EQ(backward.workspace_offset, 40U);
}

TEST(SoftmaxLaunch, ParametersMatchTheLayoutInTheSource) {
  for (const std::string_view op : softmax_ops)
    for (const char* config : {"variant=block", "variant=cluster", "variant=grid", "variant=two_pass", "variant=split"}) {
      const Case c = test::case_of(op, "rows=9,cols=9000", launch_h100(), config);
      EXPECT_NE(render(*c.op().parse(c.problem), c.config)
                    .find("sizeof(tunesmith::RowParams) == " + std::to_string(plan_of(c).params.size())),
                std::string::npos);
    }
  const LaunchPlan plan = plan_of("softmax",
                                  "rows=24,cols=10,scale=0.5,mask=keep,mask_inner=4,mask_middle=3,mask_row_stride=16,"
                                  "mask_middle_stride=0,mask_outer_stride=64,valid_cols=1,valid_cols_group=6",
                                  "");
  const auto integer = [&](std::size_t at) {
    std::int64_t value = 0;
    std::memcpy(&value, plan.params.data() + 48 + at * 8, 8);
    return value;
  };
  const std::int64_t expected[] = {24, 10, 0, 10, 4, 3, 16, 0, 64, 6};  // rows, strides, mask levels, group of lengths
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(integer(i), expected[i]) << i;
  float scale = 0;
  std::memcpy(&scale, plan.params.data() + 48 + 11 * 8, 4);
  EXPECT_EQ(scale, 0.5F);
}

TEST(SoftmaxSource, DependsOnThePresenceOfAScaleNotOnItsValue) {
  for (const std::string_view op : softmax_ops) {
    const auto text = [&](const char* options) {
      const Case c = test::case_of(op, std::string("rows=64,cols=1000") + options, launch_h100(), "variant=block");
      return render(*c.op().parse(c.problem), c.config);
    };
    EXPECT_EQ(text(",scale=0.125"), text(",scale=3.7"));
    EXPECT_NE(text(",scale=0.125"), text(""));
    EXPECT_EQ(text(",valid_cols=1"), text(",valid_cols=1,valid_cols_group=7"));
    EXPECT_EQ(text(",mask=keep"), text(",mask=keep,mask_inner=4,mask_middle=2,mask_outer_stride=4000"));
    for (const char* options : {",causal=1", ",valid_cols=1", ",mask=keep", ",safe=1"}) EXPECT_NE(text(options), text(""));
  }
}

}  // namespace
}  // namespace tunesmith
