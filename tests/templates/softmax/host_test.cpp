// Numerics of the generated softmax family on the host executor: every operation in every variant, with configurations
// sampled from the whole search space, compared with float64, with poisoned outputs and canaries (tuner/verify.h).

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/support/host_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class SoftmaxHost : public test::HostKernels {
 protected:
  /// Verifies the cases and checks the largest float32 error of each operation, in units in the last place.
  test::LargestErrors verify_float32(const std::vector<Case>& cases) {
    test::LargestErrors errors = verify_all(cases);
    for (const std::string_view op : test::softmax_ops) EXPECT_LE(errors.float32(op), 4.0) << op;
    return errors;
  }
};

TEST_F(SoftmaxHost, AllGeometriesOfOneShape) {
  // Cache hints have no effect on the host, so test one combination of hints per geometry.
  std::vector<Case> cases;
  for (const auto& [op, fields] : {std::pair{"log_softmax", "rows=17,cols=1152,dtype=bf16"},
                                   {"softmax", "rows=17,cols=518,dtype=f16"},
                                   {"softmax_backward", "rows=17,cols=520"}}) {
    const Problem problem = test::normalized(op, fields);
    for (const Config& config : find_op(op).parse(problem)->search_space(device_.info(), Effort::full))
      if (const std::string text = config.text(); text.find("load=plain") != text.npos && text.ends_with("store=plain"))
        cases.push_back({problem, config});
  }
  ASSERT_GT(cases.size(), 60U);
  verify_float32(cases);
}

// Rows with several blocks per row, or that one block reads in two passes.
TEST_F(SoftmaxHost, LongRows) {
  struct Shape {
    const char* fields;
    std::vector<const char*> configs;
  };
  const Shape shapes[] = {
      {"rows=14,cols=50257,dtype=bf16",
       {"variant=hybrid", "variant=cluster,blocks_per_row=4", "variant=two_pass,threads=1024,unroll=4"}},
      {"rows=14,cols=40003,dtype=f16,out_dtype=f32",
       {"variant=cluster,blocks_per_row=16", "variant=split,threads=64,unroll=1,blocks_per_row=37",
        "variant=two_pass,threads=128,unroll=1"}},
      {"rows=14,cols=40000,y_alignment=8", {"variant=split"}},
      {"rows=15,cols=8200", {"variant=block", "variant=hybrid,threads=256"}},
  };
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const Shape& shape : shapes)
    for (const char* config : shape.configs) {
      // Alternate between pairs of operations.
      const bool swap = turn++ % 2 == 1;
      cases.push_back(case_of(swap ? "log_softmax" : "softmax", shape.fields, config));
      cases.push_back(case_of(swap ? "softmax_backward" : "log_softmax_backward", shape.fields, config));
    }
  verify_float32(cases);
}

// Rows that stream through shared memory: several chunks and blocks, pieces of different length, with and without the first
// pass of the next row ahead; more rows than the ring holds, and fewer than clusters.
TEST_F(SoftmaxHost, StreamedRows) {
  std::vector<Case> cases;
  const char* const two_blocks = "variant=pipeline,threads=128,blocks_per_row=2,stages=7,chunk_bytes=4096,ahead=1";
  const char* const four_blocks = "variant=pipeline,threads=64,blocks_per_row=4,stages=3,chunk_bytes=4096,ahead=0";
  const char* const one_block = "variant=pipeline,threads=256,blocks_per_row=1,stages=8,chunk_bytes=4096,ahead=1";
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] : {std::pair{"rows=23,cols=6000", two_blocks},
                                         {"rows=3,cols=6004,scale=0.5", two_blocks},
                                         {"rows=9,cols=9008,dtype=bf16", four_blocks},
                                         {"rows=9,cols=9008,dtype=bf16,in_place=1", four_blocks},
                                         {"rows=23,cols=5000,dtype=f16", one_block},
                                         {"rows=23,cols=5000,dtype=f16,out_dtype=f32,scale=0.125", one_block}})
      cases.push_back(case_of(op, fields, config));
  for (const std::string_view op : {"softmax", "log_softmax"})
    cases.push_back(case_of(op, "rows=7,cols=6000,safe=1", two_blocks));
  verify_float32(cases);
}

// Numbers of warps per block and of blocks per cluster that are not powers of two, and small groups that process many rows.
TEST_F(SoftmaxHost, AnyNumberOfWarpsAndBlocks) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] :
         {std::pair{"rows=9,cols=3001,dtype=bf16", "variant=block,threads=96"},
          {"rows=9,cols=4160,dtype=f16,out_dtype=f32", "variant=block,threads=992"},
          {"rows=5,cols=20011,dtype=bf16", "variant=cluster,threads=160,blocks_per_row=3,min_blocks=1,register_vectors=2"},
          {"rows=5,cols=9000", "variant=cluster,threads=96,blocks_per_row=7,min_blocks=1,register_vectors=3"},
          {"rows=97,cols=6000", "variant=grid,threads=224,blocks_per_row=6,register_vectors=1,min_blocks=2"},
          {"rows=5,cols=9000,dtype=f16", "variant=two_pass,threads=352"}})
      cases.push_back(case_of(op, fields, config));
  verify_float32(cases);
}

// On sm_90a the blocks of a cluster send messages that the receiver counts; elsewhere they store and meet at a barrier.
TEST_F(SoftmaxHost, ClustersOfOtherArchitectures) {
  arch_ = parse_arch("sm_100a");
  std::vector<Case> cases;
  for (const char* op : {"softmax", "softmax_backward", "rms_norm", "layer_norm"})
    for (const char* fields : {"rows=7,cols=9001,dtype=bf16", "rows=7,cols=6000"})
      for (const char* blocks : {"2", "4"})
        cases.push_back(test::case_of(op, fields, device_.info(), std::string("variant=cluster,blocks_per_row=") + blocks));
  verify_all(cases);
}

// Groups of a cooperative grid process several rows, each with an exchange of tags; some vectors are in shared memory. With
// 132 multiprocessors there are two, three and one group.
const char* const grid_configs[] = {
    "variant=grid,threads=64,blocks_per_row=66,register_vectors=1,min_blocks=1",
    "variant=grid,threads=32,blocks_per_row=40,register_vectors=4,min_blocks=1",
    "variant=grid,threads=64,blocks_per_row=100,register_vectors=0,min_blocks=1",
};

TEST_F(SoftmaxHost, GridWithMoreRowsThanGroups) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const char* config : {grid_configs[0], op.starts_with("log") ? grid_configs[1] : grid_configs[2]}) {
      cases.push_back(case_of(op, "rows=11,cols=14008,dtype=bf16", config));
      const LaunchPlan plan =
          cases.back().op().parse(cases.back().problem)->launch_plan(cases.back().config, device_.info());
      ASSERT_LT(plan.kernels.at(0).grid.x, 150U);
    }
  verify_float32(cases);
  cases.clear();
  for (const std::string_view op : test::softmax_ops)
    cases.push_back(case_of(op, "rows=5,cols=14008,dtype=bf16", grid_configs[cases.size() % std::size(grid_configs)]));
  with_executables(cases, [this](const Case& c, const Executable& executable) {
    // The third launch starts with the workspace that the second one left.
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, executable, device_, 3), "") << c.text();
  });
}

TEST_F(SoftmaxHost, ResultsDoNotDependOnTheNumberOfRows) {
  // A row gives bitwise the same result alone and with other rows, for any number of groups or blocks.
  std::vector<Case> cases;
  for (const char* op : {"log_softmax", "softmax_backward"})
    for (const auto& [cols, config] : {std::pair{"300", "variant=warp"},
                                       {"9000", "variant=block"},
                                       {"9000", "variant=cluster"},
                                       {"9000", grid_configs[1]},
                                       {"9000", "variant=split"},
                                       {"9000", "variant=two_pass,blocks_per_sm=1"}})
      for (const char* rows : {"1", "9"})
        cases.push_back(case_of(op, std::string("rows=") + rows + ",cols=" + cols, config));
  std::vector<std::vector<std::byte>> results;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    results.push_back(test::Launches(c.op(), c.problem, device_, 1).launch(executable));
  });
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    ASSERT_EQ(cases[i].config, cases[i + 1].config);
    ASSERT_LT(results[i].size(), results[i + 1].size());
    EXPECT_TRUE(std::equal(results[i].begin(), results[i].end(), results[i + 1].begin())) << cases[i].text();
  }
}

TEST_F(SoftmaxHost, ManyMoreRowsThanBlocks) {
  std::vector<Case> cases;
  for (const char* config :
       {"variant=warp,lanes=4,threads=256", "variant=warp,lanes=32,threads=64", "variant=block,threads=32",
        "variant=two_pass,threads=32,unroll=2", "variant=two_pass,threads=32,unroll=2,blocks_per_sm=2"})
    cases.push_back(case_of(test::softmax_ops[cases.size() % 4], "rows=1003,cols=24,dtype=f16", config));
  verify_float32(cases);
}

// In a masked row, and in one that starts with -inf, some blocks of the row have no elements. Their partial sum is 0, not
// NaN.
TEST_F(SoftmaxHost, BlocksWithoutElements) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] :
         {std::pair{"rows=17,cols=8192,dtype=bf16", "variant=cluster,threads=256,blocks_per_row=4"},
          {"rows=17,cols=8192,dtype=f16,causal=1", "variant=grid,threads=64,blocks_per_row=16,min_blocks=1"},
          {"rows=17,cols=8192,valid_cols=1", "variant=cluster,threads=256,blocks_per_row=8"},
          {"rows=17,cols=8192,dtype=bf16,causal=1,safe=1", "variant=split,threads=32,unroll=1,blocks_per_row=32"}})
      cases.push_back(case_of(op, fields, config));
  verify_float32(cases);
}

// Intermediate values outside of float32's range although the scaled result is within it: x - max overflows, or sums
// excluding the maximum and gradients underflow.
TEST_F(SoftmaxHost, IntermediateOverflowAndUnderflowWithScale) {
  std::vector<Case> cases;
  for (const auto& [fields, config] : {std::pair{"rows=15,cols=64,scale=0.125", "variant=warp"},
                                       {"rows=15,cols=200,scale=1e-29,dtype=bf16", "variant=block"},
                                       {"rows=15,cols=1021,scale=0.125,dtype=bf16,out_dtype=f32", "variant=two_pass"},
                                       {"rows=15,cols=8192,scale=0.5", "variant=cluster"}})
    cases.push_back(case_of("log_softmax", fields, config));
  for (const char* scale : {"0.46", "0.5"})
    for (const char* config : {"variant=block", "variant=two_pass,threads=64", "variant=split,threads=32,unroll=1"})
      cases.push_back(
          case_of("log_softmax", std::string("rows=15,cols=1000,dtype=f16,out_dtype=f32,scale=") + scale, config));
  for (const char* scale : {"20", "1000"})
    cases.push_back(case_of("softmax_backward", std::string("rows=15,cols=300,scale=") + scale, "variant=block"));
  verify_float32(cases);
}

// Prefetches of rows of later blocks read the first and the last byte of what they bring into L2 (address sanitizer).
TEST_F(SoftmaxHost, PrefetchedRows) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] :
         {std::pair{"rows=43,cols=37", "variant=warp,threads=64,lanes=8,prefetch_blocks=1"},
          {"rows=90,cols=21,dtype=f16", "variant=warp,threads=64,lanes=4,access=staged,rounds=1,prefetch_blocks=2"},
          {"rows=13,cols=301", "variant=block,threads=64,min_blocks=2,prefetch_blocks=3"},
          {"rows=13,cols=1001,dtype=bf16", "variant=hybrid,threads=32,register_vectors=2,min_blocks=1,prefetch_blocks=1"},
          {"rows=9,cols=1003", "variant=cluster,threads=64,blocks_per_row=3,min_blocks=1,prefetch_blocks=7"}})
      cases.push_back(case_of(op, fields, config));
  verify_float32(cases);
}

// Rows that do not start at a vector, accessed in pairs and in single elements; elements outside of a row must not change.
TEST_F(SoftmaxHost, NarrowAccesses) {
  const char* const configs[] = {"variant=warp,threads=64,lanes=32", "variant=warp,threads=128,lanes=8",
                                 "variant=block,threads=64"};
  constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const char* access : {"pairs", "elements"})
    for (const DType in : dtypes)
      for (const DType out : dtypes)
        for (const char* cols : {"cols=37", "cols=130", "cols=501"}) {
          const std::string fields =
              std::string("rows=23,") + cols + ",dtype=" + std::string(name(in)) + ",out_dtype=" + std::string(name(out));
          const std::string config = std::string(configs[turn % 3]) + ",access=" + access;
          cases.push_back(case_of(test::softmax_ops[turn++ % 4], fields, config));
        }
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] :
         {std::pair{"rows=23,cols=781,dtype=bf16,in_place=1,causal=1,safe=1", "variant=warp,lanes=32,access=pairs"},
          {"rows=23,cols=781,mask=keep,valid_cols=1,scale=3.7", "variant=warp,lanes=32,access=elements"},
          {"rows=23,cols=1501,dtype=f16,mask=keep,mask_alignment=1", "variant=block,threads=128,access=pairs"}})
      cases.push_back(case_of(op, fields, config));
  verify_float32(cases);
}

}  // namespace
}  // namespace tunesmith
