// A wall clock that jumps: rows are found, replaced, merged and verified whatever the time is.

#include <ctime>

#include "tests/cache/fixture.h"
#include "tests/support/jumping_clock.h"

namespace tunesmith {
namespace {

constexpr std::int64_t year_s = 31'536'000;

class CacheClock : public CacheTest {
 protected:
  ~CacheClock() override { move_clock(0); }
};

TEST_F(CacheClock, TheClockIsMoved) {
  const std::time_t now = std::time(nullptr);
  move_clock(-10 * year_s);
  EXPECT_NEAR(static_cast<double>(now - std::time(nullptr)), 10 * year_s, 60);
}

TEST_F(CacheClock, JumpsLoseAndChangeNothing) {
  constexpr std::int64_t jumps[] = {0, 10 * year_s, -10 * year_s, -80 * year_s, 3600, -3600, 300 * year_s};
  int stored = 0;
  for (const std::int64_t jump : jumps) {
    move_clock(jump);
    Cache cache(options());
    cache.store_binary(sample_binary("b" + std::to_string(stored), 5000, stored), "text");
    cache.store_binary(sample_binary("same", 5000, stored), "text");
    cache.store_record(sample_record(100 + stored), sample_trials(3));
    TuningRecord same = sample_record(64, stored + 1);
    same.created_unix_s = std::time(nullptr);
    cache.store_record(same, {});
    ++stored;
    for (const std::int64_t later : jumps) {
      move_clock(later);
      Cache reader(options());
      expect_equal(reader.find_record(sample_key(64)).value(), same);  // the last one, not the newest by the clock
      expect_equal(reader.find_binary("same").value(), sample_binary("same", 5000, stored - 1));
      for (int i = 0; i < stored; ++i) {
        EXPECT_TRUE(reader.find_record(sample_key(100 + i))) << jump << " " << later;
        EXPECT_TRUE(reader.find_binary("b" + std::to_string(i))) << jump << " " << later;
      }
    }
  }
  Cache cache(options());
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(count_aside(), 0);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheClock, MergesRowsOfMachinesWithOtherClocks) {
  const std::filesystem::path past = folder() / "past.db", future = folder() / "future.db";
  move_clock(-80 * year_s);
  { Cache(options(past)).store_binary(sample_binary("past", 1000), "text"); }
  move_clock(300 * year_s);
  { Cache(options(future)).store_binary(sample_binary("future", 1000), "text"); }
  move_clock(0);
  Cache cache(options());
  cache.store_binary(sample_binary("now", 1000), "text");
  for (const auto& file : {past, future}) cache.import_from(file);
  for (const char* fingerprint : {"past", "future", "now"}) EXPECT_TRUE(cache.find_binary(fingerprint)) << fingerprint;
  EXPECT_TRUE(cache.verify().empty());
}

// Two files that are damaged within one second of the moved clock, or before 1970, are both moved aside.
TEST_F(CacheClock, DamagedFilesAreMovedAside) {
  for (const std::int64_t jump : {std::int64_t{0}, std::int64_t{0}, -80 * year_s, 300 * year_s}) {
    move_clock(jump);
    write_file(file(), random_bytes(5000, 3));
    Cache cache(options());
    cache.store_record(sample_record(64), {});
    EXPECT_TRUE(Cache(options()).find_record(sample_key(64))) << jump;
  }
}

}  // namespace
}  // namespace tunesmith
