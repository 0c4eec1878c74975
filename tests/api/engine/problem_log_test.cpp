// The problem log: what a program asks for, with counts.

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

using Json = nlohmann::json;

class ProblemLogTest : public testing::Test {
 protected:
  ProblemLogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-log-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ProblemLogTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "problems.jsonl"; }
  EngineOptions options() const {
    EngineOptions options = fakes::in_mode(Mode::off);
    options.problem_log = file();
    return options;
  }
  std::vector<Json> lines() const {
    std::ifstream stream(file());
    std::vector<Json> all;
    for (std::string line; std::getline(stream, line);) all.push_back(Json::parse(line));
    return all;
  }

  std::filesystem::path folder_;
};

SoftmaxProblem softmax(std::int64_t rows, std::int64_t cols) { return SoftmaxProblem::contiguous(rows, cols, DType::f32); }

TEST_F(ProblemLogTest, WritesNewProblemsAtOnceAndCountsAtTheEnd) {
  {
    fakes::FakeEngine fake(options());
    for (int i = 0; i < 3; ++i) fake.engine->prepare(softmax(8, 100));
    fake.engine->prepare(softmax(7, 100));  // the same bucket of rows
    fake.engine->prepare(softmax(8, 200));
    ASSERT_EQ(lines().size(), 2u);
    EXPECT_EQ(lines()[0]["op"], "softmax");
    EXPECT_EQ(lines()[0]["rows"], 8);
    EXPECT_EQ(lines()[0]["cols"], 100);
    EXPECT_EQ(lines()[0]["dtype"], "f32");
    EXPECT_EQ(lines()[0]["count"], 1);
  }
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(lines()[2]["cols"], 100);
  EXPECT_EQ(lines()[2]["rows"], 8);
  EXPECT_EQ(lines()[2]["count"], 3);
  struct stat facts {};
  ASSERT_EQ(stat(file().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0600u) << "it contains the user's functions";
}

TEST_F(ProblemLogTest, LeavesPinnedConfigurationsOut) {
  fakes::FakeEngine fake(options());
  fake.engine->prepare(softmax(4, 100), {.config = {parse_fields("variant=two_pass", "config")}});
  EXPECT_TRUE(lines().empty());
}

TEST_F(ProblemLogTest, KeepsUserFunctions) {
  const std::string function =
      "// \"quoted\" \\ \t\n__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return k <= q; }\n";
  AttentionProblem problem;
  problem.seq_q = 4;
  problem.head_dim = 64;
  problem.dtype = DType::f32;
  problem.mask_mod = function;
  fakes::FakeEngine fake(options());
  fake.engine->prepare(problem);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0]["mask_mod"], function);
}

// A line that is not JSON would make the whole log useless.
TEST_F(ProblemLogTest, ALineIsJsonWhateverAUserFunctionContains) {
  const std::string end = "\n__device__ bool mask_mod(int, int, int, int k, const Aux&) { return k != 1; }\n";
  AttentionProblem problem;
  problem.seq_q = 4;
  problem.head_dim = 64;
  problem.dtype = DType::f32;
  for (const auto& [comment, written] : {std::pair<std::string, std::string>{"// f\xFCr", "// f\uFFFDr"},
                                         {"// \u00FC \u20AC \U0001F600", "// \u00FC \u20AC \U0001F600"},
                                         {"// \xE2\x82", "// \uFFFD\uFFFD"},
                                         {"// \xC0\x80 \xED\xA0\x80", "// \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD"}}) {
    std::filesystem::remove(file());
    problem.mask_mod = comment + end;
    fakes::FakeEngine fake(options());
    fake.engine->prepare(problem);
    ASSERT_EQ(lines().size(), 1u);
    EXPECT_EQ(lines()[0]["mask_mod"], written + end);
  }
}

TEST_F(ProblemLogTest, StaysWithinThePlanCapacity) {
  EngineOptions small = options();
  small.plan_capacity = 8;
  fakes::FakeEngine fake(small);
  for (std::int64_t cols = 1; cols <= 20; ++cols) fake.engine->prepare(softmax(4, cols));
  EXPECT_EQ(lines().size(), 8u);
}

TEST_F(ProblemLogTest, AFileThatCannotBeWrittenIsOneWarning) {
  EngineOptions nowhere = options();
  nowhere.problem_log = folder_ / "none" / "problems.jsonl";
  fakes::FakeEngine fake(nowhere);
  for (std::int64_t cols = 1; cols <= 5; ++cols) fake.engine->prepare(softmax(4, cols));
  EXPECT_EQ(fake.logged("warning: the problem log"), 1);
}

}  // namespace
}  // namespace tunesmith
