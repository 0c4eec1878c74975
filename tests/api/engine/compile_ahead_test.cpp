// Kernels that the engine compiles before a call needs them.

#include "api/engine/compile_ahead.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "tests/api/engine/fakes.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

using fakes::FakeEngine;

EngineOptions options_with(std::uint32_t jobs) {
  EngineOptions options = fakes::in_mode(Mode::replay);
  options.compile_ahead_jobs = jobs;
  return options;
}

SoftmaxProblem softmax_of(std::int64_t cols) { return SoftmaxProblem::contiguous(4, cols, DType::f32); }

std::set<std::int64_t> capacities_of(const std::vector<ParsedProblemPtr>& problems) {
  std::set<std::int64_t> capacities;
  for (const ParsedProblemPtr& problem : problems) capacities.insert(problem->capacity());
  return capacities;
}

ParsedProblemPtr parsed(const char* op, const std::string& fields) {
  return find_op(op).parse({op, parse_fields(fields, "problem")});
}

TEST(InBuckets, HasOneProblemOfTheClassForEachBucket) {
  const ParsedProblemPtr problem = parsed("softmax", "rows=256,cols=1000,dtype=bf16");
  const std::vector<ParsedProblemPtr> others = problem->in_buckets(512, 4096);
  EXPECT_EQ(capacities_of(others), (std::set<std::int64_t>{512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096}));
  for (const ParsedProblemPtr& other : others) {
    EXPECT_EQ(other->capacity_class(), problem->capacity_class());
    EXPECT_EQ(other->arrays().front().strides.front(), other->problem().fields.integer("cols"));
  }
}

TEST(InBuckets, KeepsAlignmentAndOptions) {
  for (const char* fields :
       {"rows=256,cols=1001,dtype=bf16", "rows=300,cols=1002,dtype=f16", "rows=7,cols=77,dtype=f32,y_alignment=4",
        "rows=256,cols=1000,dtype=bf16,in_place=1", "rows=64,cols=999,x_row_stride=4096,dtype=f32"})
    for (const char* op : {"softmax", "log_softmax"}) {
      const ParsedProblemPtr problem = parsed(op, fields);
      const std::vector<ParsedProblemPtr> others = problem->in_buckets(64, 4095);
      EXPECT_GE(others.size(), 10u) << fields;
      for (const ParsedProblemPtr& other : others) EXPECT_EQ(other->capacity_class(), problem->capacity_class()) << fields;
    }
}

TEST(InBuckets, RowsOfTheCallersBufferLimitTheWidth) {
  const ParsedProblemPtr problem = parsed("softmax", "rows=64,cols=1000,x_row_stride=2000,y_row_stride=2000,dtype=f32");
  EXPECT_EQ(capacities_of(problem->in_buckets(1024, 8192)), (std::set<std::int64_t>{1024, 1536}))
      << "2040 columns, the most of the next bucket that end like 1000, are more than a row of the buffer has";
}

TEST(InBuckets, CrossEntropyWidensItsVocabulary) {
  const ParsedProblemPtr problem = parsed("cross_entropy", "rows=256,cols=1000,dtype=bf16");
  EXPECT_EQ(problem->in_buckets(512, 4096).size(), 9u);
  EXPECT_TRUE(parsed("attention", "seq_q=64,head_dim=64")->in_buckets(512, 4096).empty());
}

TEST(CompileAhead, CompilesTheBucketsAroundThreeThatCallersWaitedFor) {
  FakeEngine fake(options_with(2));
  CompileAhead& ahead = *fake.engine->parts().compile_ahead;
  fake.engine->prepare(softmax_of(1000));
  fake.engine->prepare(softmax_of(4000));
  ahead.wait();
  EXPECT_EQ(fake.compiler->compilations, 2) << "two widths are no sign of many";
  fake.engine->prepare(softmax_of(1004));
  EXPECT_EQ(fake.compiler->compilations, 2) << "the same bucket";
  fake.engine->prepare(softmax_of(2000));
  ahead.wait();
  // From 512 to 8192: two buckets an octave up to 2048 columns, four beyond.
  EXPECT_EQ(fake.compiler->compilations, 13);
  for (const std::int64_t cols : {500, 1500, 3000, 8000})
    EXPECT_EQ(fake.engine->prepare(softmax_of(cols)).capacity() % 512, 0);
  EXPECT_EQ(fake.compiler->compilations, 13) << "callers find what was compiled ahead";
  fake.engine->prepare(softmax_of(100));
  ahead.wait();
  EXPECT_EQ(fake.compiler->compilations, 13 + 1 + 5) << "a bucket beyond extends the range: 64, 96, 192, 256 and 384";
}

TEST(CompileAhead, DoesNothingWithoutJobsOrAGpu) {
  FakeEngine fake(options_with(0));
  for (const std::int64_t cols : {500, 1000, 2000, 4000}) fake.engine->prepare(softmax_of(cols));
  EXPECT_EQ(fake.compiler->compilations, 4);
}

TEST(CompileAhead, FailuresReachOnlyCallers) {
  FakeEngine fake(options_with(2));
  for (const std::int64_t cols : {1000, 4000}) fake.engine->prepare(softmax_of(cols));
  fake.compiler->takes = std::chrono::milliseconds(20);
  fake.engine->prepare(softmax_of(2000));
  fake.compiler->fails = true;
  fake.engine->parts().compile_ahead->wait();
  EXPECT_EQ(fake.engine->prepare(softmax_of(1000)).origin(), Origin::capacity);
  fakes::expect_error([&] { fake.engine->prepare(softmax_of(100)); }, ErrorCode::compile_failed, {"does not compile"});
}

// Waits for compilations under way only, not for all buckets.
TEST(CompileAhead, EndsWithTheEngine) {
  auto fake = std::make_unique<FakeEngine>(options_with(1));
  for (const std::int64_t cols : {1000, 4000}) fake->engine->prepare(softmax_of(cols));
  fake->compiler->takes = std::chrono::milliseconds(50);
  fake->engine->prepare(softmax_of(2000));
  const auto compiler = fake->compiler;
  fake.reset();
  EXPECT_LE(compiler->compilations, 5);
}

TEST(CompileAhead, AForkedChildCanEndItsEngine) {
  FakeEngine fake(options_with(2));
  fake.compiler->takes = std::chrono::milliseconds(5);
  for (const std::int64_t cols : {1000, 4000, 2000}) fake.engine->prepare(softmax_of(cols));
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    fake.engine->parts().compile_ahead.reset();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace tunesmith
