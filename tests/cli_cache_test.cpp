// tunesmith cache: on a file that holds a record, its trials and a binary.

#include <fstream>

#include "cache/cache.h"
#include "templates/op.h"
#include "tests/cli_process.h"

namespace tunesmith::cli {
namespace {

class CacheCommandTest : public CliTest {
 protected:
  CacheCommandTest() {
    CacheOptions options;
    options.file = cache_file();
    Cache cache(options);
    for (const std::int64_t cols : {1024, 2048}) {
      TuningRecord record;
      record.key = {"softmax", "x=f32,y=f32,vector=4,in_place=0", cols, 64, "NVIDIA Test;sm_90a;sm=1;l2=1MiB", "digest",
                    "policy"};
      record.config = "variant=block,threads=128,min_blocks=1,registers=float32,load=plain,store=plain";
      record.problem = "softmax rows=64,cols=" + std::to_string(cols) + ",dtype=f32";
      record.median_us = 2;
      record.mad_us = 0.01;
      record.default_median_us = 3;
      record.bytes = 4e6;
      record.effort = "quick";
      record.provenance = {{"driver", "999"}};
      record.created_unix_s = 1700000000;
      cache.store_record(record,
                         {{record.config, "timed", 2, 0.01, 20, ""}, {"variant=warp", "wrong", 0, 0, 0, "y[0,0] is 1"}});
    }
    BinaryRecord binary;
    binary.fingerprint = std::string(32, 'a');
    binary.source_hash = std::string(32, 'b');
    binary.arch = "sm_90a";
    binary.image = "image";
    cache.store_binary(binary, "source");
  }
};

TEST_F(CacheCommandTest, InfoListAndShow) {
  const nlohmann::json info = run_json({"cache", "info"});
  EXPECT_EQ(info["file"], cache_file());
  EXPECT_EQ(info["records"], 2);
  EXPECT_EQ(info["trials"], 4);
  EXPECT_EQ(info["binaries"], 1);
  EXPECT_NE(run({"cache", "info"}).out.find("2 with 4 trials"), std::string::npos);

  EXPECT_EQ(run_json({"cache", "list"})["records"].size(), 2u);
  const Outcome list = run({"cache", "list", "--op", "softmax"});
  for (const char* text : {"1024", "2048", "1.50x", "NVIDIA Test", "variant=block"})
    EXPECT_NE(list.out.find(text), std::string::npos) << text << " in:\n" << list.out;

  const nlohmann::json record = run_json({"cache", "show", "2"});
  EXPECT_EQ(record["trials"].size(), 2u);
  EXPECT_EQ(record["provenance"]["driver"], "999");
  const Outcome shown = run({"cache", "show", "1"});
  for (const char* text : {"2.00 us", "1.50x", "driver", "999", "wrong", "y[0,0] is 1"})
    EXPECT_NE(shown.out.find(text), std::string::npos) << text << " in:\n" << shown.out;
  EXPECT_NE(run({"cache", "show", "1", "--source"}).out.find("extern \"C\""), std::string::npos);

  expect_refused({"cache", "show", "3"}, {"record is '3'", "1 to 2"});
  expect_refused({"cache", "show", "first"}, {"record is 'first'"});
  expect_refused({"cache", "list", "--op", "sofmax"}, {"sofmax", "softmax"});
}

TEST_F(CacheCommandTest, ExportImportClear) {
  const std::string shipped = path("shipped.db");
  EXPECT_EQ(run({"cache", "export", shipped, "--without-binaries"}).code, 0);
  expect_refused({"cache", "export", shipped}, {shipped}, 1);
  EXPECT_EQ(run_json({"cache", "info", "--cache", shipped})["records"], 2);
  EXPECT_EQ(run_json({"cache", "info", "--cache", shipped})["binaries"], 0);

  EXPECT_EQ(run({"cache", "clear", "--binaries-only"}).code, 0);
  EXPECT_EQ(run_json({"cache", "info"})["binaries"], 0);
  EXPECT_EQ(run_json({"cache", "info"})["records"], 2);
  EXPECT_EQ(run({"cache", "clear", "--op", "softmax"}).code, 0);
  EXPECT_EQ(run_json({"cache", "info"})["records"], 0);
  expect_refused({"cache", "show", "1"}, {"no records"}, 1);
  expect_refused({"cache", "clear", "--op", "sofmax"}, {"sofmax"});

  for (const char* word : {"import", "merge"}) {
    EXPECT_EQ(run({"cache", "clear"}).code, 0);
    EXPECT_EQ(run({"cache", word, shipped}).code, 0);
    EXPECT_EQ(run_json({"cache", "info"})["records"], 2) << word;
  }
  expect_refused({"cache", "import", path("none.db")}, {path("none.db"), "does not exist"}, 1);

  environment["TUNESMITH_SYSTEM_CACHE"] = shipped;
  EXPECT_EQ(run({"cache", "clear"}).code, 0);
  const nlohmann::json records = run_json({"cache", "list"})["records"];
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["shipped"], true);
}

TEST_F(CacheCommandTest, VerifyFindsDamage) {
  EXPECT_EQ(run_json({"cache", "verify"})["healthy"], true);
  std::string bytes = read("cache.db");
  const std::size_t at = bytes.find("y[0,0] is 1");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'z';
  write("cache.db", bytes);
  const Outcome outcome = run({"cache", "verify", "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["healthy"], false);
  EXPECT_TRUE(outcome.err.starts_with("tunesmith: error: ")) << outcome.err;
  EXPECT_EQ(run({"cache", "verify"}).code, 0);  // the damaged row is gone
}

}  // namespace
}  // namespace tunesmith::cli
