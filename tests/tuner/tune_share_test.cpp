// The share of time that tuning may take, with a scripted clock.

#include "tuner/tune_share.h"

#include <gtest/gtest.h>

namespace tunesmith {
namespace {

struct ScriptedShare {
  ScriptedShare(double share, double allowance_s) : tune(share, allowance_s, [this] { return now_s; }) {}

  void spend(double seconds) {
    const auto run = tune.start();
    now_s += seconds;
  }

  double now_s = 1000;
  TuneShare tune;
};

TEST(TuneShare, AllowsTheAllowanceThenTheShare) {
  ScriptedShare share(0.5, 2);
  EXPECT_TRUE(share.tune.allows());
  share.spend(1);
  EXPECT_TRUE(share.tune.allows());
  share.spend(4);
  EXPECT_DOUBLE_EQ(share.tune.spent_s(), 5);
  EXPECT_FALSE(share.tune.try_start());
  share.now_s = 1011;  // 5 s and a run of 2.5 s, the mean, are 2 s + 0.5 * 11 s
  EXPECT_FALSE(share.tune.try_start());
  share.now_s = 1011.1;
  EXPECT_TRUE(share.tune.try_start());
}

TEST(TuneShare, CountsRunsThatHaveNotEnded) {
  ScriptedShare share(0, 3);
  const auto first = share.tune.try_start();
  ASSERT_TRUE(first);
  share.now_s += 1;
  const auto second = share.tune.try_start();
  ASSERT_TRUE(second);
  share.now_s += 1;  // 2 s and 1 s
  EXPECT_DOUBLE_EQ(share.tune.spent_s(), 3);
  EXPECT_FALSE(share.tune.try_start());
}

TEST(TuneShare, EndsBeforeTheRunThatWouldExceedIt) {
  ScriptedShare share(0, 5);
  for (int run = 0; run < 2; ++run) {
    EXPECT_TRUE(share.tune.allows());
    share.spend(2);
  }
  EXPECT_FALSE(share.tune.allows()) << "4 s and 2 s more";
}

TEST(TuneShare, ExpectsTheMeanOfARunThatHasNotEnded) {
  ScriptedShare share(0, 6.5);
  share.spend(2);
  const auto first = share.tune.try_start();
  ASSERT_TRUE(first);
  const auto second = share.tune.try_start();
  ASSERT_TRUE(second) << "2 s, 2 s of the run that has started, and 2 s";
  EXPECT_FALSE(share.tune.allows());
}

TEST(TuneShare, OneIsNoBound) {
  ScriptedShare share(1, 0);
  share.spend(1000);
  share.spend(1000);
  EXPECT_TRUE(share.tune.try_start());
}

}  // namespace
}  // namespace tunesmith
