// Rows without columns: outputs have no elements, as in PyTorch, and no configuration launches a kernel. A result with
// elements for each row is an error.

#include <gtest/gtest.h>

#include <vector>

#include "tests/api/engine/host_options.h"
#include "tests/support/cases.h"
#include "tunesmith/cross_entropy.h"
#include "tunesmith/engine.h"
#include "tunesmith/error.h"
#include "tunesmith/rms_norm.h"
#include "tunesmith/row_program.h"

namespace tunesmith {
namespace {

struct Named {
  const char* op;
  const char* fields;
};
constexpr Named empty_problems[] = {
    {"softmax", "rows=3,cols=0"},
    {"softmax_backward", "rows=3,cols=0,inner=4,dtype=f64"},
    {"rms_norm", "rows=3,cols=0"},
    {"rms_norm", "rows=3,cols=0,dtype=bf16,weight=1,weight_dtype=f32,weight_offset=1,x_row_stride=8,y_row_stride=5"},
    {"rms_norm", "rows=3,cols=0,dtype=f64,in_place=1,weight=1"},
    {"cross_entropy_backward", "rows=3,cols=0"},
    {"cross_entropy_backward", "rows=3,cols=0,reduction=none,label_smoothing=0.1,weight=1,nll=1,dlse=1,z_loss=0.5"},
    {"cross_entropy_backward", "rows=3,cols=0,reduction=mean,weight=1,dtype=f64,in_place=1"},
    {"cross_entropy_backward", "rows=3,cols=0,vocab_start=100,vocab_size=100,reduction=sum,dtype=bf16"},
    {"cross_entropy_backward", "rows=3,cols=0,inner=4,reduction=mean,weight=1"},
    {"cross_entropy_backward", "rows=3,cols=0,inner=4,in_place=1,reduction=none"},
    {"layer_norm", "rows=3,cols=0"},
    {"swiglu", "rows=3,cols=0,dtype=f16,row_strides=gate=8;up=0"},
    {"softmax", "rows=3,cols=0,inner=7"},
    {"softmax_dropout", "rows=3,cols=0,inner=7,numbers=seed=3"},
    {"rms_norm_e4m3_blocks", "rows=3,cols=0,dtype=bf16"},
    {"layer_norm_gradient", "rows=3,cols=0"},
    {"layer_norm_gradient", "rows=3,cols=0,inner=7"},
    {"rms_norm_e4m3_blocks_gradient", "rows=3,cols=0,dtype=bf16"},
    {"cross_entropy_gradient", "rows=3,cols=0"},
};

TEST(EmptyRows, NoConfigurationLaunchesAKernel) {
  for (const Named& named : empty_problems) {
    SCOPED_TRACE(std::string(named.op) + " " + named.fields);
    const ParsedProblemPtr problem = find_op(named.op).parse(test::normalized(named.op, named.fields));
    std::vector<HostArray> arrays;
    std::vector<std::vector<std::byte>> memory;
    for (const ArrayInfo& info : problem->arrays()) {
      EXPECT_TRUE(info.input || info.elements() == 0) << info.name;
      memory.emplace_back(static_cast<std::size_t>(info.extent_bytes()) + 1);
      arrays.push_back({info, memory.back().data()});
    }
    EXPECT_EQ(problem->problem().fields.integer("rows"), 3);
    EXPECT_EQ(problem->problem().fields.integer("cols"), 0);
    for (const InputKind kind : {InputKind::random, InputKind::edge_cases}) problem->fill_inputs(5, kind, arrays);
    const CheckResult check = problem->check(arrays, 10);
    EXPECT_TRUE(check.passed) << check.first_failure;
    EXPECT_EQ(problem->cost().bytes_written, 0);
    for (const DeviceInfo& device : {generic_device(parse_arch("sm_90a")), generic_device(parse_arch("sm_75"))}) {
      std::vector<Config> configs = problem->search_space(device, Effort::full);
      configs.push_back(problem->default_config(device));
      EXPECT_GE(configs.size(), 2U);
      for (const Config& config : configs)
        EXPECT_TRUE(problem->launch_plan(config, device).kernels.empty()) << config.text();
    }
  }
}

TEST(EmptyRows, CallsDoNothing) {
  Engine engine(test::host_engine_options());
  float numbers[3] = {1, 2, 3};
  std::int64_t targets[3] = {0, 1, -100};
  RmsNormProblem norm{.rows = 3, .cols = 0};
  EXPECT_NO_THROW(engine.run(norm, {nullptr, nullptr}));
  EXPECT_EQ(engine.prepare(norm).occupancy(), 0);
  CrossEntropyBackwardProblem gradient = CrossEntropyBackwardProblem::contiguous(3, 0, DType::f32);
  gradient.reduction = Reduction::none;
  for (const std::int64_t inner : {1, 4}) {
    gradient.inner = inner;
    EXPECT_NO_THROW(engine.run(gradient, {.targets = targets, .lse = numbers, .dloss = numbers}));
    EXPECT_EQ(engine.prepare(gradient).occupancy(), 0);
  }
  RowProgramProblem program;
  program.program = RowProgramText::shipped("add_rms_norm");
  program.rows = 3;
  program.cols = 0;
  for (const std::int64_t inner : {1, 4}) {
    program.inner = inner;
    EXPECT_NO_THROW(engine.run(program, {}));
    EXPECT_EQ(engine.prepare(program).occupancy(), 0);
  }
  EXPECT_EQ(numbers[0], 1);
}

TEST(EmptyRows, ResultsWithElementsForEachRowAreErrors) {
  const auto error_of = [](const char* op, const char* fields) -> std::string {
    try {
      test::normalized(op, fields);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of("cross_entropy", "rows=3,cols=0"), "cols is 0; allowed: 1 to 2147483647");
  EXPECT_EQ(error_of("cross_entropy_shard", "rows=3,cols=0"), "cols is 0; allowed: 1 to 2147483647");
  EXPECT_EQ(error_of("rms_norm", "rows=3,cols=0,rstd=1"),
            "cols is 0 and rstd is 1; allowed: cols of 1 to 2147483647, or rstd=0: the mean of no elements is NaN");
  EXPECT_EQ(error_of("soft_cross_entropy", "rows=3,cols=0"),
            "cols is 0, and the output loss has an element for each row; allowed: 1 to 2147483647, or 0 if all outputs have "
            "columns");
  EXPECT_EQ(error_of("topk_gate", "rows=3,cols=0"),
            "cols is 0; allowed: at least 8, the columns that the program's topk chooses");
}

}  // namespace
}  // namespace tunesmith
