// Selection of a configuration, and its origin.

#include "core/half_octave.h"
#include "core/hash.h"
#include "tests/tuner/fakes.h"

namespace tunesmith {
namespace {

class Select : public fakes::TunerTest {
 protected:
  Selection select_now(Mode mode = Mode::replay) {
    return select(*op.parse(problem), device.info(), templates, cache, mode, device.provenance());
  }
  void record(std::int64_t cols, const std::string& config, const std::string& driver = "1") {
    store(entry_of(cols, config, driver));
  }
  /// As another version of the templates left it.
  void record_of(const std::string& template_digest, std::int64_t created_unix_s, const std::string& config) {
    TuningRecord entry = entry_of(100, config);
    entry.key.template_digest = template_digest;
    entry.created_unix_s = created_unix_s;
    store(entry);
  }

 private:
  void store(const TuningRecord& entry) { cache.store_record(entry, {}); }
  TuningRecord entry_of(std::int64_t cols, const std::string& config, const std::string& driver = "1") {
    TuningRecord entry;
    entry.key = tuning_key(*op.parse(fakes::add_one_problem(64, cols)), device.info(), templates);
    entry.config = config;
    entry.median_us = static_cast<double>(cols);
    entry.problem = "add_one";
    entry.effort = "full";
    entry.provenance = {{"driver", driver}, {"device_uuid", "b"}};
    return entry;
  }
};

TEST_F(Select, UsesTheDefaultWithoutRecords) {
  const Selection selection = select_now();
  EXPECT_EQ(selection.origin, Origin::by_default);
  EXPECT_EQ(selection.config.config(), fakes::AddOneOp::config(1));
  EXPECT_EQ(selection.nearest_n_cols, 0);
  EXPECT_EQ(selection.median_us, 0);
  EXPECT_FALSE(selection.stale);
}

TEST_F(Select, UsesAnExactRecordUnlessOff) {
  record(100, "variant=plain,width=8");
  record(101, "variant=plain,width=4");
  const Selection selection = select_now();
  EXPECT_EQ(selection.origin, Origin::exact);
  EXPECT_EQ(selection.config.config(), fakes::AddOneOp::config(8));
  EXPECT_EQ(selection.nearest_n_cols, 100);
  EXPECT_EQ(selection.median_us, 100);
  EXPECT_EQ(select_now(Mode::tune).origin, Origin::exact);
  EXPECT_EQ(select_now(Mode::off).origin, Origin::by_default);
}

TEST(HalfOctave, RoundsUpToTwoStepsAnOctave) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{{-1, -1}, {0, 0},       {1, 1},      {2, 2},  {3, 3},
                                                                    {4, 4},   {5, 6},       {7, 8},      {9, 12}, {12, 12},
                                                                    {13, 16}, {4097, 6144}, {6145, 8192}};
  for (const auto& [n, rounded] : expected) EXPECT_EQ(half_octave(n), rounded) << n;
  for (std::int64_t n = 1; n < 5000; ++n) {
    EXPECT_GE(half_octave(n), n);
    EXPECT_LE(half_octave(n), n + n / 2);
    EXPECT_EQ(half_octave(half_octave(n)), half_octave(n));
  }
}

TEST_F(Select, UsesRecordsOfTheBucketTheVeryColumnsFirst) {
  op.cols_in_buckets = true;
  problem = fakes::add_one_problem(64, 100);
  record(97, "variant=plain,width=8");  // stored under 128, the upper end of its bucket
  EXPECT_EQ(tuning_key(*op.parse(problem), device.info(), templates).n_cols, 128);
  EXPECT_EQ(select_now().origin, Origin::exact);
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(8));
  // A record whose n_cols was not rounded, as earlier versions left it.
  TuningRecord entry = cache.list_records().at(0);
  entry.key.n_cols = 100;
  entry.config = "variant=plain,width=4";
  cache.store_record(entry, {});
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(4));
  problem = fakes::add_one_problem(64, 101);
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(8));
  // Across an edge it is only near.
  problem = fakes::add_one_problem(64, 96);
  EXPECT_EQ(select_now().origin, Origin::nearest);
  problem = fakes::add_one_problem(64, 129);
  EXPECT_EQ(select_now().origin, Origin::nearest);
}

TEST_F(Select, UsesAnUnroundedRecordOfTheBucketAlone) {
  op.cols_in_buckets = true;
  problem = fakes::add_one_problem(64, 100);
  record(128, "variant=plain,width=8");
  TuningRecord entry = cache.list_records().at(0);
  cache.clear({});
  entry.key.n_cols = 110;
  cache.store_record(entry, {});
  EXPECT_EQ(select_now().origin, Origin::exact);
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(8));
}

TEST_F(Select, PrefersARecordOfOlderTemplatesToTheNearestColumns) {
  record(101, "variant=plain,width=4");
  record_of("first", 10, "variant=plain,width=2");
  record_of("second", 20, "variant=plain,width=8");
  for (const Mode mode : {Mode::replay, Mode::tune}) {
    const Selection selection = select_now(mode);
    EXPECT_EQ(selection.origin, Origin::older);
    EXPECT_EQ(selection.config.config(), fakes::AddOneOp::config(8)) << "the newest";
    EXPECT_EQ(selection.median_us, 100);
  }
  EXPECT_EQ(select_now(Mode::off).origin, Origin::by_default);
  record_of("third", 30, "variant=plain,width=500");
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(8)) << "width 500 no longer fits";
  record(100, "variant=plain,width=1");
  EXPECT_EQ(select_now().origin, Origin::exact);
}

TEST_F(Select, UsesTheNearestColumns) {
  record(60, "variant=plain,width=2");
  record(120, "variant=plain,width=4");
  const Selection selection = select_now();
  EXPECT_EQ(selection.origin, Origin::nearest);
  EXPECT_EQ(selection.config.config(), fakes::AddOneOp::config(4));
  EXPECT_EQ(selection.nearest_n_cols, 120);
  EXPECT_EQ(selection.median_us, 120);
}

TEST_F(Select, SkipsAnInvalidRecord) {
  record(110, "variant=plain,width=101");  // more than the 100 columns of the problem
  record(150, "variant=plain,width=4");
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(4));
  record(100, "variant=plain,width=500");  // the exact key
  const Selection selection = select_now();
  EXPECT_EQ(selection.origin, Origin::nearest);
  EXPECT_EQ(selection.config.config(), fakes::AddOneOp::config(4));
}

TEST_F(Select, PrefersTheDefaultToDistantColumns) {
  record(401, "variant=plain,width=4");
  record(24, "variant=plain,width=4");
  EXPECT_EQ(select_now().origin, Origin::by_default);
  record(400, "variant=plain,width=8");
  EXPECT_EQ(select_now().origin, Origin::nearest);
  EXPECT_EQ(select_now().config.config(), fakes::AddOneOp::config(8));
}

TEST_F(Select, IgnoresInvalidConfigurationsInTheCache) {
  for (const std::string text :
       {"", ",", "=", "width", "variant=plain,width=no", "variant=plain", "width=4", "width=4,width=4",
        "variant=plain,width=4,extra=1", "\xff\x01\x7f", "width=999999999999999999999999"}) {
    record(100, text);
    const Selection selection = select_now();
    EXPECT_EQ(selection.origin, Origin::by_default) << text;
    EXPECT_EQ(selection.config.config(), fakes::AddOneOp::config(1)) << text;
  }
}

TEST_F(Select, ReturnsFieldsInCanonicalOrder) {
  record(100, "width=8,variant=plain");
  EXPECT_EQ(select_now().config.text(), "variant=plain,width=8");
}

TEST_F(Select, AnotherDriverClockOrPowerLimitMakesARecordStale) {
  record(100, "variant=plain,width=8", "1");
  EXPECT_FALSE(select_now().stale) << "another GPU of the same model with the same driver";
  device.facts_now["power_limit_w"] = "500";
  EXPECT_FALSE(select_now().stale) << "the record has no driver";
  device.facts_now["driver"] = "2";
  const Selection selection = select_now();
  EXPECT_TRUE(selection.stale);
  EXPECT_EQ(selection.origin, Origin::exact) << "it is used nevertheless";
}

TEST_F(Select, KeyCoversTheTemplatesOfEveryVariant) {
  const TuningKey key = tuning_key(*op.parse(problem), device.info(), templates);
  EXPECT_EQ(key.op, "add_one");
  EXPECT_EQ(key.n_cols, 100);
  EXPECT_EQ(key.rows_bucket, 64);
  EXPECT_EQ(key.device_class, device.info().device_class());
  EXPECT_EQ(key.policy, measuring_policy());
  EXPECT_EQ(key, tuning_key(*op.parse(problem), device.info(), templates));

  const auto digest = [&](const TemplateSet& set) {
    return tuning_key(*op.parse(problem), device.info(), set).template_digest;
  };
  const std::string kernel_changed = digest(write_templates("two"));
  const std::string sibling_changed = digest(write_templates("one", "new"));
  EXPECT_NE(kernel_changed, key.template_digest);
  EXPECT_NE(sibling_changed, key.template_digest);
  EXPECT_NE(sibling_changed, kernel_changed);
  EXPECT_EQ(digest(write_templates("one")), key.template_digest);
}

TEST_F(Select, KeyDependsOnTokensNotOnText) {
  const auto digest = [&](const TemplateSet& set) {
    return tuning_key(*op.parse(problem), device.info(), set).template_digest;
  };
  const std::string original = digest(templates);
  EXPECT_EQ(digest(write_templates("// a comment\n\n  one", "sibling /* another */")), original);
  EXPECT_NE(digest(write_templates("one two")), original);
}

}  // namespace
}  // namespace tunesmith
