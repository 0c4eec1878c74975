// Arrays for measurements, rounds, and the compile pool.

#include <set>

#include "tests/tuner/fakes.h"
#include "tuner/compile_pool.h"
#include "tuner/contest.h"
#include "tuner/timing_arrays.h"

namespace tunesmith {
namespace {

class TimingArraysTest : public fakes::TunerTest {
 protected:
  static constexpr std::int64_t no_cap = std::int64_t{1} << 40;
};

TEST_F(TimingArraysTest, SmallProblemsKeepTheirRows) {
  const TimingArrays arrays(op.parse(problem), device, no_cap, 1);
  EXPECT_EQ(arrays.problem().problem(), problem);
  ASSERT_EQ(arrays.addresses().size(), 2u);
  EXPECT_NE(arrays.addresses()[0], arrays.addresses()[1]);
  EXPECT_EQ(device.allocated_bytes, 2 * 64 * 100 * 4);
}

TEST_F(TimingArraysTest, FillsTheWholeInputWithOrdinaryValues) {
  // 9.6 MB with gaps: more than the host generates, so the device repeats the data.
  const Problem large = fakes::add_one_problem(23'001, 100, {{"row_stride", std::int64_t{104}}});
  const TimingArrays arrays(op.parse(large), device, no_cap, 1);
  const auto* const x = static_cast<const float*>(arrays.addresses()[0]);
  std::set<float> last_row;
  for (std::int64_t c = 0; c < 100; ++c) {
    EXPECT_TRUE(x[23'000 * 104 + c] >= 0 && x[23'000 * 104 + c] < 1000);
    last_row.insert(x[23'000 * 104 + c]);
  }
  EXPECT_GT(last_row.size(), 50u) << "not random";
  for (std::int64_t r = 0; r < 23'000; ++r) {
    const float step = x[r * 104 + 1] - x[r * 104];  // of AddOneOp's inputs: 1, or back to 0 from 999
    ASSERT_TRUE(step == 1 || step == -999) << "row " << r << " does not start at the start of a generated row";
    ASSERT_EQ(x[r * 104 + 100], 0) << "gap of row " << r;
  }
}

TEST_F(TimingArraysTest, ReducesRowsToTheCap) {
  const Problem large = fakes::add_one_problem(4096, 100, {{"row_stride", std::int64_t{104}}});
  const TimingArrays arrays(op.parse(large), device, 1'000'000, 1);
  const std::int64_t rows = arrays.problem().problem().fields.integer("rows");
  EXPECT_LE(device.allocated_bytes, 1'000'000);
  EXPECT_GT(device.allocated_bytes, 990'000) << "more than needed: " << rows << " rows";
  EXPECT_EQ(arrays.problem().problem().fields.integer("row_stride"), 104);
}

TEST_F(TimingArraysTest, InPlaceTakesHalfTheMemory) {
  const Problem in_place = fakes::add_one_problem(4096, 100, {{"in_place", std::int64_t{1}}});
  const TimingArrays arrays(op.parse(in_place), device, no_cap, 1);
  EXPECT_EQ(arrays.addresses()[0], arrays.addresses()[1]);
  EXPECT_EQ(device.allocated_bytes, 4096 * 100 * 4);
}

TEST_F(TimingArraysTest, UsesAtMostHalfOfTheDeviceMemory) {
  device.facts().memory_bytes = 1'000'000;
  const TimingArrays arrays(op.parse(fakes::add_one_problem(4096, 100)), device, no_cap, 1);
  EXPECT_LE(device.allocated_bytes, 500'000);
  EXPECT_GT(device.allocated_bytes, 490'000);
}

TEST_F(TimingArraysTest, ReducesRowsIfOthersUseTheMemory) {
  device.free_bytes = 1'000'000;
  const TimingArrays arrays(op.parse(fakes::add_one_problem(4096, 100)), device, no_cap, 1);
  EXPECT_EQ(arrays.problem().problem().fields.integer("rows"), 1024);
}

TEST_F(TimingArraysTest, ErrorReportsTheSizeThatDoesNotFit) {
  const auto make = [&](std::int64_t cap) { TimingArrays(op.parse(fakes::add_one_problem(64, 100)), device, cap, 1); };
  fakes::expect_error([&] { make(799); }, ErrorCode::out_of_memory, "needs arrays of 800 bytes; at most 799");
  EXPECT_NO_THROW(make(800));
  device.free_bytes = 100;
  fakes::expect_error([&] { make(no_cap); }, ErrorCode::out_of_memory, "400 bytes");
}

TEST(CompilePoolTest, BuildsEverythingInOrderOnSeveralThreads) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> started{0};
  std::set<std::size_t> first_started;  // the order of these four depends on the scheduler
  CompilePool pool(8, 4, [&](std::size_t index) {
    {
      const std::lock_guard lock(mutex);
      if (first_started.size() < 4) first_started.insert(index);
      threads.insert(std::this_thread::get_id());
    }
    ++started;
    while (started < 4) std::this_thread::yield();  // continues only if four run at once
    if (index == 5) throw Error(ErrorCode::compile_failed, "five");
    Built built;
    built.source = std::to_string(index);
    return built;
  });
  std::set<std::size_t> seen;
  for (int i = 0; i < 8; ++i) {
    const auto outcome = pool.next(std::chrono::seconds(20));
    ASSERT_TRUE(outcome);
    seen.insert(outcome->index);
    EXPECT_EQ(outcome->failure != nullptr, outcome->index == 5);
    EXPECT_EQ(outcome->built.source, outcome->index == 5 ? "" : std::to_string(outcome->index));
  }
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(threads.size(), 4u);
  EXPECT_EQ(first_started, (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_FALSE(pool.next(std::chrono::milliseconds(1)));

  std::vector<std::size_t> order;
  CompilePool alone(8, 1, [&](std::size_t index) {
    order.push_back(index);
    return Built();
  });
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(alone.next(std::chrono::seconds(20)));
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(CompilePoolTest, DestructorStartsNoMoreBuilds) {
  std::atomic<int> started{0};
  {
    CompilePool pool(1000, 2, [&](std::size_t) {
      ++started;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return Built();
    });
    EXPECT_TRUE(pool.next(std::chrono::seconds(20)));
  }
  EXPECT_LT(started, 100);
}

TEST(DropRules, DropsSlowCandidatesAndKeepsTheDefault) {
  const auto timed = [](double us) {
    Candidate candidate;
    candidate.samples_us = {us, us, us};
    return candidate;
  };
  std::vector<Candidate> candidates(4);
  for (const auto& [index, us] : {std::pair{0, 50.0}, {1, 10.0}, {2, 19.9}, {3, 20.1}})
    candidates[static_cast<std::size_t>(index)] = timed(us);
  candidates[0].is_default = true;
  std::vector<Candidate*> live{&candidates[0], &candidates[1], &candidates[2], &candidates[3]};
  drop_slow(live, {3, 2.0});
  ASSERT_EQ(live, (std::vector{&candidates[0], &candidates[1], &candidates[2]}));
  EXPECT_EQ(candidates[3].trial.status, "dropped");
  EXPECT_EQ(candidates[3].trial.median_us, 20.1);
  EXPECT_EQ(candidates[3].trial.samples, 3);
  EXPECT_EQ(candidates[3].trial.reason, "2.01 times the fastest after 3 rounds");

  candidates[2].samples_us = {14, 12.4, 10.5};  // within the noise of 12
  drop_slow(live, {3, 1.2});
  EXPECT_EQ(live.size(), 3u);
}

}  // namespace
}  // namespace tunesmith
