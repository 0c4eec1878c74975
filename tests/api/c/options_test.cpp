// The C API's options of an engine, and its log. Runs on the host executor.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/api/c/fixture.h"
#include "tunesmith/c_api.h"

namespace {

using tunesmith::test::CApi;
using tunesmith::test::expect_message;
using tunesmith::test::host_options;
using tunesmith::test::NamedProblem;

TEST(CApiOptions, AMalformedRemoteCacheIsNamed) {
  tunesmith_engine* engine = nullptr;
  tunesmith_options options = host_options();
  options.remote = "redis://cache:0";
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"remote URL", "port is '0'; allowed: 1 to 65535"});
}

TEST(CApiOptions, AreCheckedAndMayBeOfAnotherVersion) {
  tunesmith_engine* engine = nullptr;
  tunesmith_options options = host_options();
  options.struct_size = 0;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"struct_size is 0", "sizeof(tunesmith_options)"});
  EXPECT_EQ(tunesmith_engine_create(&options, nullptr), TUNESMITH_INVALID_ARGUMENT);

  options = host_options();
  options.mode = "fast";
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mode is 'fast'", "tune, later, replay, off"});
  options = host_options();
  options.tune_budget_s = -1;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"tune_budget_s is -1"});
  options = host_options();
  options.device = "tpu";
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"device is 'tpu'", "host"});
  EXPECT_EQ(engine, nullptr);

  // A caller built with a newer header: fine until it uses a field this library does not know.
  struct {
    tunesmith_options known;
    const char* unknown;
  } newer{host_options(), nullptr};
  newer.known.struct_size = sizeof newer;
  EXPECT_EQ(tunesmith_engine_create(&newer.known, &engine), TUNESMITH_OK) << tunesmith_last_error();
  tunesmith_engine_destroy(engine);
  engine = nullptr;
  newer.unknown = "x";
  EXPECT_EQ(tunesmith_engine_create(&newer.known, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"struct_size is", "knows only the first"});
}

TEST(CApiOptions, SpecializeChoosesTheKernel) {
  tunesmith_options options = host_options();
  options.mode = "off";
  const NamedProblem problem("softmax", {{"rows", 2}, {"cols", 20}});
  for (const auto& [specialize, origin] : {std::pair{"exact", "default"}, {"capacity", "capacity"}, {"auto", "capacity"}}) {
    options.specialize = specialize;
    tunesmith_engine* engine = nullptr;
    ASSERT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_OK) << tunesmith_last_error();
    tunesmith_plan* plan = nullptr;
    ASSERT_EQ(tunesmith_prepare(engine, problem.get(), "", TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
        << tunesmith_last_error();
    EXPECT_STREQ(tunesmith_plan_origin(plan), origin);
    tunesmith_plan_destroy(plan);
    tunesmith_engine_destroy(engine);
  }
  options.specialize = "both";
  tunesmith_engine* engine = nullptr;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("specialize is 'both'"), std::string::npos) << tunesmith_last_error();
}

TEST_F(CApi, LogLinesReachTheCallback) {
  std::string lines;
  tunesmith_options options = host_options();
  options.mode = "off";
  options.log_context = &lines;
  options.log = [](tunesmith_log_level level, const char* line, void* context) {
    *static_cast<std::string*>(context) += (level == TUNESMITH_LOG_INFO ? "info: " : "warning: ") + std::string(line) + "\n";
  };
  tunesmith_engine* engine = nullptr;
  ASSERT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_OK) << tunesmith_last_error();
  float x[4] = {1, 2, 3, 4};
  const NamedProblem problem("softmax", {{"rows", 1}, {"cols", 4}});
  void* const in_place[2] = {x, x};
  ASSERT_EQ(tunesmith_run(engine, problem.get(), in_place, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(x[0] + x[1] + x[2] + x[3], 1, 1e-6);
  EXPECT_NE(lines.find("info: compiled softmax rows=1,cols=4"), std::string::npos) << lines;
  tunesmith_engine_destroy(engine);
}

}  // namespace
