// Calls of the cross-entropy family: checks of targets, errors, and which calls share a plan.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "api/dispatch/plan_table.h"
#include "tests/api/engine/cross_entropy_fixture.h"
#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

using fakes::expect_error;
using test::CrossEntropyFamily;
using test::with_logits;

TEST_F(CrossEntropyFamily, ChecksTargetsOnRequest) {
  fill(5, 12);
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(5, 12, DType::f32);
  problem.check_targets = true;
  engine_.run_checked(problem, with_logits(arrays(), logits_.data()));  // all targets are valid
  targets_[1] = 12;
  targets_[4] = -3;
  expect_error([&] { engine_.run_checked(problem, with_logits(arrays(), logits_.data())); }, ErrorCode::invalid_argument,
               {"targets[1] is 12; allowed: 0 to 11, or ignore_index -100 (2 rows in all)"});
  EXPECT_TRUE(std::isnan(loss_[0]));
  std::vector<std::int32_t> narrow{0, 1, 2, -3, 4};
  CrossEntropyArrays other = arrays();
  other.targets = narrow.data();
  problem.target_dtype = DType::i32;
  expect_error([&] { engine_.run_checked(problem, with_logits(other, logits_.data())); }, ErrorCode::invalid_argument,
               {"targets[3] is -3; allowed: 0 to 11", "(1 row in all)"});

  // Without waiting, through the caller's array.
  std::int64_t bad[2] = {};
  other.bad_targets = bad;
  problem.check_targets = false;
  engine_.run_checked(problem, with_logits(other, logits_.data()));
  EXPECT_EQ(bad[0], 1);
  EXPECT_EQ(bad[1], 3);

  // Also when shards are combined.
  std::vector<float> parts(5 * 8);
  engine_.run(CrossEntropyShardProblem::contiguous(5, 12, DType::f32),
              {logits_.data(), targets_.data(), nullptr, parts.data()});
  CrossEntropyCombineProblem combine = CrossEntropyCombineProblem::contiguous(5, 1, 12);
  combine.check_targets = true;
  expect_error(
      [&] {
        engine_.run_checked(
            combine, {.partials = parts.data(), .targets = targets_.data(), .loss = loss_.data(), .lse = lse_.data()});
      },
      ErrorCode::invalid_argument, {"targets[1] is 12; allowed: 0 to 11, or ignore_index -100 (2 rows in all)"});
}

class CrossEntropyCalls : public testing::Test {
 protected:
  CrossEntropyArrays arrays() { return {.targets = targets_.data(), .loss = floats_.data(), .lse = floats_.data() + 8}; }
  template <typename Call>
  void rejects(const Call& call, std::initializer_list<std::string_view> words) {
    expect_error(call, ErrorCode::invalid_argument, words);
    EXPECT_EQ(fake_.compiler->compilations, 0);  // before any work
  }

  fakes::FakeEngine fake_{fakes::in_mode(Mode::off)};
  Engine& engine_ = *fake_.engine;
  std::vector<float> logits_ = std::vector<float>(64), other_ = std::vector<float>(64), floats_ = std::vector<float>(64);
  std::vector<std::int64_t> targets_ = std::vector<std::int64_t>(4);
  CrossEntropyProblem problem_ = CrossEntropyProblem::contiguous(4, 8, DType::f32);
};

TEST_F(CrossEntropyCalls, ErrorsNameMissingArrays) {
  const auto without = [&](auto member, const char* name) {
    CrossEntropyArrays given = arrays();
    given.*member = nullptr;
    rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); }, {name, "is a null pointer"});
  };
  without(&CrossEntropyArrays::targets, "targets");
  without(&CrossEntropyArrays::loss, "loss");
  without(&CrossEntropyArrays::lse, "lse");
  rejects([&] { engine_.run_checked(problem_, with_logits(arrays(), nullptr)); }, {"logits is a null pointer"});

  const auto asked = [&](const auto& ask, std::initializer_list<std::string_view> words) {
    CrossEntropyProblem problem = problem_;
    ask(problem);
    rejects([&] { engine_.run_checked(problem, with_logits(arrays(), logits_.data())); }, words);
  };
  asked([](auto& p) { p.weight = true; }, {"weight is a null pointer"});
  asked([](auto& p) { p.nll = true; }, {"nll is a null pointer"});
  asked([](auto& p) { p.argmax = true; }, {"argmax is a null pointer"});
  asked([](auto& p) { p.num_correct = true; }, {"num_correct is a null pointer"});
  asked([](auto& p) { p.dloss = Upstream::scalar; }, {"dloss is a null pointer"});
  asked([](auto& p) { p.gradient = Gradient::separate; }, {"dlogits is a null pointer"});
  asked([](auto& p) { p.z_loss = 0.5; }, {"z_loss is a null pointer"});

  const CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(4, 8, DType::f32);
  CrossEntropyBackwardArrays given{.logits = logits_.data(), .targets = targets_.data(), .lse = floats_.data()};
  rejects([&] { engine_.run(backward, given); }, {"dloss is a null pointer"});
  given.dloss = floats_.data() + 8;
  rejects([&] { engine_.run(backward, given); }, {"dlogits is a null pointer"});
  rejects(
      [&] {
        engine_.run(CrossEntropyShardProblem::contiguous(4, 8, DType::f32), {logits_.data(), targets_.data()});
      },
      {"partials is a null pointer"});
}

TEST_F(CrossEntropyCalls, ErrorsNameInvalidFields) {
  CrossEntropyArrays given = arrays();
  given.z_loss = floats_.data() + 16;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); },
          {"z_loss is given", "the problem does not have it"});
  given = arrays();
  given.dloss = floats_.data() + 16;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); },
          {"dloss is scalar", "gradient is none"});
  given = arrays();
  given.targets = reinterpret_cast<const std::byte*>(targets_.data()) + 4;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); }, {"targets is at", "i64", "8 bytes"});
  problem_.target_dtype = DType::f32;
  rejects([&] { engine_.run_checked(problem_, with_logits(arrays(), logits_.data())); },
          {"target_dtype is 'f32'", "i32, i64"});
  problem_.target_dtype = DType::i64;
  problem_.label_smoothing = 2;
  rejects([&] { engine_.run_checked(problem_, with_logits(arrays(), logits_.data())); }, {"label_smoothing is 2", "0 to 1"});
  problem_.label_smoothing = 0;
  given = arrays();
  given.dlogits = logits_.data();
  problem_.out_dtype = DType::bf16;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); }, {"in place", "f32", "bf16", "agree"});
}

TEST_F(CrossEntropyCalls, OnlyEqualCallsShareAPlan) {
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));
  engine_.run_checked(problem_, with_logits(arrays(), other_.data()));
  problem_.logits_row_stride = 8;    // as if it were absent
  problem_.out_dtype = DType::bf16;  // of dlogits, which are not computed: another entry of the table, the same plan
  problem_.logits_alignment = 4;     // the address determines it
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));
  EXPECT_EQ(fake_.compiler->compilations, 1);
  EXPECT_EQ(engine_.parts().plans->calls.size(), 2u);

  CrossEntropyArrays given = arrays();
  std::vector<std::int64_t> argmax(4);
  given.argmax = argmax.data();
  engine_.run_checked(problem_, with_logits(given, logits_.data()));
  EXPECT_EQ(fake_.compiler->compilations, 2);
  problem_.out_dtype = DType::f32;
  given.dlogits = other_.data();
  engine_.run_checked(problem_, with_logits(given, logits_.data()));
  given.dlogits = logits_.data();
  engine_.run_checked(problem_, with_logits(given, logits_.data()));
  EXPECT_EQ(engine_.parts().plans->calls.size(), 5u);
}

TEST_F(CrossEntropyCalls, DoesNotWaitDuringACapture) {
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));
  fake_.device->capturing = true;
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));  // the plan exists, so it only launches
  problem_.check_targets = true;
  expect_error([&] { engine_.run_checked(problem_, with_logits(arrays(), logits_.data())); }, ErrorCode::capturing,
               {"check_targets", "capturing", "bad_targets"});
}

}  // namespace
}  // namespace tunesmith
