// Records as text, and the text in this repository that ships.

#include "api/cli/cache/record_lines.h"

#include <gtest/gtest.h>

#include <cmath>

#include "api/cli/cache/current_version.h"
#include "templates/op.h"
#include "tests/support/source_folder.h"
#include "tuner/recorded.h"

namespace tunesmith::cli {
namespace {

TuningRecord sample(std::int64_t n_cols) {
  TuningRecord record;
  record.key = {"softmax", "x=f32", n_cols, 64, "NVIDIA Test;sm_90a;sm=1;l2=1MiB", "digest", "policy"};
  record.config = "variant=block";
  record.median_us = 0.1 + 0.2;  // needs all 17 digits
  record.mad_us = 1e-9;
  record.default_median_us = 3;
  record.bytes = 4e9;
  record.problem = "softmax rows=64";
  record.effort = "full";
  record.provenance = {{"driver", "580.1 \"quoted\"\n\xc3\xa9"}, {"device_uuid", "GPU-1234"}};
  record.created_unix_s = 1'700'000'000;
  return record;
}

TEST(RecordLines, ComeBackAsTheyWereButForTheOneGpu) {
  const std::string text = to_lines({sample(2048), sample(1024)});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find("GPU-1234"), std::string::npos);
  const std::vector<TuningRecord> records = parse_lines(text, "f.jsonl");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].key.n_cols, 1024) << "sorted by key";
  const TuningRecord expected = sample(2048);
  EXPECT_EQ(records[1].key, expected.key);
  EXPECT_EQ(records[1].config, expected.config);
  EXPECT_EQ(records[1].median_us, expected.median_us);
  EXPECT_EQ(records[1].mad_us, expected.mad_us);
  EXPECT_EQ(records[1].default_median_us, expected.default_median_us);
  EXPECT_EQ(records[1].bytes, expected.bytes);
  EXPECT_EQ(records[1].problem, expected.problem);
  EXPECT_EQ(records[1].effort, expected.effort);
  EXPECT_EQ(records[1].created_unix_s, expected.created_unix_s);
  EXPECT_EQ(records[1].provenance, (std::map<std::string, std::string>{{"driver", expected.provenance.at("driver")}}));
  EXPECT_EQ(to_lines(records), text);

  TuningRecord odd = sample(1);
  odd.mad_us = std::nan("");
  EXPECT_TRUE(std::isnan(parse_lines(to_lines({odd}), "f").front().mad_us));
  EXPECT_TRUE(parse_lines("", "f").empty());
  EXPECT_EQ(to_lines({}), "");
}

TEST(RecordLines, MistakesAreNamedWithTheirPlace) {
  const std::string good = to_lines({sample(1)});
  const auto expect_rejected = [&](const std::string& line, const std::string& word) {
    try {
      parse_lines(good + line + "\n", "dir/f.jsonl");
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_NE(std::string(error.what()).find("dir/f.jsonl:2: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  expect_rejected("nonsense", "JSON object");
  expect_rejected("[1]", "JSON object");
  expect_rejected("{}", "'op' is missing");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good.substr(0, good.size() - 1);
    return line.replace(line.find(from), from.size(), to);
  };
  expect_rejected(with("\"n_cols\":1", "\"n_cols\":\"1\""), "'n_cols' is \"1\"");
  expect_rejected(with("\"bytes\"", "\"octets\""), "'bytes' is missing");
  expect_rejected(with("{\"op\"", "{\"extra\":1,\"op\""), "'extra'");
}

// What is in the repository. It fails after a change to templates that were tuned: no lookup finds their records any more.
TEST(ShippedRecords, AreSmallCanonicalAndOfTheseTemplates) {
  const std::filesystem::path file = source_folder() / "cache/shipped/records.jsonl";
  EXPECT_LE(std::filesystem::file_size(file), std::uintmax_t{2} << 20);
  const std::vector<TuningRecord> records = read_lines(file);
  const std::string text = to_lines(records);
  EXPECT_EQ(text.size(), std::filesystem::file_size(file)) << "not as scripts/ship_cache.sh writes it";
  EngineOptions options;
  options.templates_folder.clear();
  CurrentVersion version(options);
  int unusable = 0, invalid = 0;
  std::string first;
  for (const TuningRecord& record : records) {
    const std::string use = version.use_of(record);
    if (use != "exact") {
      ++unusable;
      if (first.empty()) first = record.problem + ": " + use;
      continue;
    }
    const Op& op = find_op(record.key.op);
    const Problem problem =
        op.normalize({record.key.op, parse_fields(record.problem.substr(record.problem.find(' ') + 1), "problem")});
    if (!recorded_config(*op.parse(problem), generic_device({9, 0, 'a'}), record.config)) ++invalid;
  }
  EXPECT_EQ(unusable, 0) << "of " << records.size() << " shipped records, e.g. " << first
                         << "; tune again and run scripts/ship_cache.sh CACHE_FILE, or run it alone to drop them";
  EXPECT_EQ(invalid, 0) << "of " << records.size() << " shipped records name a configuration that sm_90a cannot run";
}

}  // namespace
}  // namespace tunesmith::cli
