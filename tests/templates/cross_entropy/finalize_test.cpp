// cross_entropy_divisor, cross_entropy_upstream and cross_entropy_reduce on the host executor: compared with float64, with
// poisoned outputs and canaries, and tested with special values.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "api/engine/parts.h"
#include "jit/executable.h"
#include "templates/render.h"
#include "tests/api/engine/fakes.h"
#include "tests/api/engine/host_options.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using fakes::expect_error;

class CrossEntropyFinalize : public testing::Test {
 protected:
  Problem problem(const std::string& op, const std::string& fields) {
    return find_op(op).normalize({op, parse_fields(fields, "fields")});
  }

  void expect_verified(const std::string& name, const std::string& fields) {
    const Op& op = find_op(name);
    const Problem small = op.parse(problem(name, fields))->verification_problem();
    Engine::Parts& parts = engine_.parts();
    const Config whole = op.parse(small)->default_config(parts.device->info());
    const Built built =
        build_binary({*op.parse(small), whole, parts.templates}, parts.device->info().arch, *parts.compiler, *parts.cache);
    const Executable executable(*parts.device, parts.device->load(built.binary),
                                op.parse(small)->launch_plan(whole, parts.device->info()));
    const CheckResult result = verify(*op.parse(small), executable, *parts.device, 5);
    EXPECT_TRUE(result.passed) << small.text() << ": " << result.first_failure;
    EXPECT_GT(result.checked_rows, 0);
  }

  Engine engine_{test::host_engine_options()};
};

TEST_F(CrossEntropyFinalize, AllOptionsAgreeWithFloat64) {
  for (const char* fields :
       {"rows=9,cols=50", "rows=9,cols=50,target_dtype=i32,weight=1", "rows=9,cols=50,weight=1,dloss=scalar,ignore_index=3",
        "rows=9,cols=50,weight=1,scaled_weight=1",
        "rows=9,cols=2003,weight=1,scaled_weight=1,dloss=scalar,target_dtype=i32"})
    expect_verified("cross_entropy_divisor", fields);
  for (const char* fields : {"rows=9", "rows=9,divisor=1", "rows=9,z_losses=1", "rows=9,z_losses=1,divisor=1"})
    expect_verified("cross_entropy_reduce", fields);
  for (const char* fields : {"rows=9", "rows=9,dloss=row"}) expect_verified("cross_entropy_upstream", fields);
}

TEST_F(CrossEntropyFinalize, UpstreamFactorIsTheLargestMagnitude) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::array<float, 3> dlse{}, scaled{};
  float dloss = 0, factor = -1, scaled_dloss = -1;
  const Problem upstream = problem("cross_entropy_upstream", "rows=3");
  const auto run = [&](float loss, std::array<float, 3> lse) {
    dloss = loss;
    dlse = lse;
    engine_.run(upstream, std::array<void*, 5>{&dloss, dlse.data(), &factor, &scaled_dloss, scaled.data()});
  };
  run(0.25f, {-4, 0, 2});
  EXPECT_EQ(factor, 4);
  EXPECT_EQ(scaled_dloss, 0.0625f);
  EXPECT_EQ(scaled, (std::array<float, 3>{-1, 0, 0.5f}));
  run(-8, {-4, 0, 2});
  EXPECT_EQ(factor, 8);
  EXPECT_EQ(scaled_dloss, -1);
  run(0, {0, 0, 0});
  EXPECT_EQ(factor, 1) << "nothing to scale";
  EXPECT_EQ(scaled, (std::array<float, 3>{}));
  run(1, {infinity, 2, 0});
  EXPECT_EQ(factor, 1) << "an infinite factor would turn infinity into NaN and the rest into 0";
  EXPECT_EQ(scaled, (std::array<float, 3>{infinity, 2, 0}));
  run(1, {std::nanf(""), 2, 0});
  EXPECT_TRUE(std::isnan(scaled[0]));
  EXPECT_EQ(scaled[1], 2);
}

TEST_F(CrossEntropyFinalize, DivisorAndGradientFactorAreZeroWithoutValidRows) {
  std::array<std::int64_t, 3> targets{-100, 7, -1};
  float divisor = -1, scale = -1;
  engine_.run(problem("cross_entropy_divisor", "rows=3,cols=7"), std::array<void*, 3>{targets.data(), &divisor, &scale});
  EXPECT_EQ(divisor, 0);
  EXPECT_EQ(scale, 0);
  engine_.run(problem("cross_entropy_divisor", "rows=0,cols=7"), std::array<void*, 3>{nullptr, &divisor, &scale});
  EXPECT_EQ(divisor, 0);
  targets[1] = 6;
  engine_.run(problem("cross_entropy_divisor", "rows=3,cols=7"), std::array<void*, 3>{targets.data(), &divisor, &scale});
  EXPECT_EQ(divisor, 1);
  EXPECT_EQ(scale, 1);
}

TEST_F(CrossEntropyFinalize, IgnoreIndexMayBeAClass) {
  std::array<std::int32_t, 4> targets{2, 0, 2, 1};
  float divisor = 0, scale = 0, dloss = 8;
  engine_.run(problem("cross_entropy_divisor", "rows=4,cols=3,target_dtype=i32,ignore_index=2,dloss=scalar"),
              std::array<void*, 4>{targets.data(), &dloss, &divisor, &scale});
  EXPECT_EQ(divisor, 2);
  EXPECT_EQ(scale, 4);
}

TEST_F(CrossEntropyFinalize, PropagatesInfinityAndNaN) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::array<float, 40> losses{};
  float loss = 0;
  const Problem sum = problem("cross_entropy_reduce", "rows=40");
  losses[3] = infinity;
  losses[37] = 1;
  engine_.run(sum, std::array<void*, 2>{losses.data(), &loss});
  EXPECT_EQ(loss, infinity);
  losses[9] = std::nanf("");
  engine_.run(sum, std::array<void*, 2>{losses.data(), &loss});
  EXPECT_TRUE(std::isnan(loss));
  float divisor = 0;
  engine_.run(problem("cross_entropy_reduce", "rows=0,divisor=1"), std::array<void*, 3>{nullptr, &divisor, &loss});
  EXPECT_TRUE(std::isnan(loss)) << "the mean of no rows";
}

TEST_F(CrossEntropyFinalize, ErrorsNameInvalidConfigurations) {
  const auto expect_rejected = [&](const char* config, std::initializer_list<std::string_view> words) {
    expect_error(
        [&] { engine_.prepare(problem("cross_entropy_reduce", "rows=3"), {.config = {parse_fields(config, "config")}}); },
        ErrorCode::invalid_argument, words);
  };
  expect_rejected("lanes=4", {"'lanes'", "allowed: variant"});
  expect_rejected("variant=grid", {"variant is 'grid'", "block"});
}

}  // namespace
}  // namespace tunesmith
