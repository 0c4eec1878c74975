// tunesmith cache: on a file that holds a record, its trials and a binary.

#include "cache/cache.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "api/engine/parts.h"
#include "cache/binaries.h"
#include "core/hash.h"
#include "templates/op.h"
#include "templates/render.h"
#include "templates/template_set.h"
#include "tests/api/cli/process.h"
#include "tuner/select.h"

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

  expect_rejected({"cache", "show", "3"}, {"record is '3'", "1 to 2"});
  expect_rejected({"cache", "show", "first"}, {"record is 'first'"});
  expect_rejected({"cache", "list", "--op", "sofmax"}, {"sofmax", "softmax"});
}

TEST_F(CacheCommandTest, ExportImportClear) {
  const std::string shipped = path("shipped.db");
  EXPECT_EQ(run({"cache", "export", shipped, "--without-binaries"}).code, 0);
  expect_rejected({"cache", "export", shipped}, {shipped}, 1);
  EXPECT_EQ(run_json({"cache", "info", "--cache", shipped})["records"], 2);
  EXPECT_EQ(run_json({"cache", "info", "--cache", shipped})["binaries"], 0);

  EXPECT_EQ(run({"cache", "clear", "--binaries-only"}).code, 0);
  EXPECT_EQ(run_json({"cache", "info"})["binaries"], 0);
  EXPECT_EQ(run_json({"cache", "info"})["records"], 2);
  EXPECT_EQ(run({"cache", "clear", "--op", "softmax"}).code, 0);
  EXPECT_EQ(run_json({"cache", "info"})["records"], 0);
  expect_rejected({"cache", "show", "1"}, {"no records"}, 1);
  expect_rejected({"cache", "clear", "--op", "sofmax"}, {"sofmax"});

  for (const char* word : {"import", "merge"}) {
    EXPECT_EQ(run({"cache", "clear"}).code, 0);
    EXPECT_EQ(run({"cache", word, shipped}).code, 0);
    EXPECT_EQ(run_json({"cache", "info"})["records"], 2) << word;
  }
  expect_rejected({"cache", "import", path("none.db")}, {path("none.db"), "does not exist"}, 1);

  environment["TUNESMITH_SYSTEM_CACHE"] = shipped;
  EXPECT_EQ(run({"cache", "clear"}).code, 0);
  const nlohmann::json records = run_json({"cache", "list"})["records"];
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["shipped"], true);
}

/// A record that this version finds on a GPU of its class.
TuningRecord current_record(std::int64_t cols) {
  const Op& op = find_op("softmax");
  const Problem problem = op.normalize({"softmax", {{"rows", std::int64_t{64}}, {"cols", cols}}});
  DeviceInfo device = generic_device({9, 0, 'a'});
  device.name = "NVIDIA Test";
  TuningRecord record;
  record.key = tuning_key(*op.parse(problem), device, TemplateSet::embedded());
  record.config = op.parse(problem)->default_config(device).text();
  record.problem = problem.text();
  record.median_us = 2;
  record.provenance = {{"driver", "of another time"}, {"compiler", "another NVRTC"}};
  record.created_unix_s = 1'700'000'000;
  return record;
}

TEST_F(CacheCommandTest, PruneRemovesWhatThisVersionCannotUse) {
  {
    CacheOptions options;
    options.file = cache_file();
    Cache cache(options);
    cache.store_record(current_record(512), {{"variant=warp", "timed", 2, 0.01, 20, ""}});
    TuningRecord of_no_operation = current_record(512);
    of_no_operation.key.op = "sofmax";
    cache.store_record(of_no_operation, {});
  }
  EXPECT_EQ(run({"run", "softmax", "--rows", "2", "--cols", "64", "--device", "host"}).code, 0);  // a binary of this version

  const nlohmann::json pretended = run_json({"cache", "prune", "--dry-run"});
  EXPECT_EQ(pretended["dry_run"], true);
  EXPECT_EQ(run_json({"cache", "info"})["records"], 4);
  const Outcome text = run({"cache", "prune", "--dry-run"});
  for (const char* part : {"would be removed", "keys of another version: ", "other templates: 1", "would be"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " in:\n" << text.out;

  const nlohmann::json done = run_json({"cache", "prune"});
  EXPECT_EQ(done["removed"], pretended["removed"]);
  EXPECT_EQ(done["removed"], (nlohmann::json{{"records", 3}, {"trials", 4}, {"binaries", 1}, {"sources", 1}}));
  EXPECT_EQ(done["kept"], (nlohmann::json{{"records", 1}, {"trials", 1}, {"binaries", 1}, {"sources", 1}}));
  EXPECT_EQ(done["records"].size(), 3u);
  EXPECT_EQ(done["binaries"][0]["fingerprint"], std::string(32, 'a'));
  EXPECT_EQ(done["binaries"][0]["reason"], "other templates");
  const nlohmann::json left = run_json({"cache", "list"})["records"];
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]["n_cols"], 512) << "another driver and another NVRTC make no record useless";

  EXPECT_EQ(run_json({"cache", "prune"})["removed"]["records"], 0);
  EXPECT_EQ(run_json({"cache", "prune", "--older-than", "1"})["removed"]["binaries"], 0) << "it was stored just now";
  expect_rejected({"cache", "prune", "--older-than", "0"}, {"--older-than"});
  expect_rejected({"cache", "prune", "--max-size", "-1"}, {"--max-size"});
}

TEST_F(CacheCommandTest, RecordsOfOlderTemplatesStayUntilMeasuredAgain) {
  const auto store = [&](const std::string& template_digest, std::int64_t created_unix_s) {
    TuningRecord record = current_record(512);
    if (!template_digest.empty()) record.key.template_digest = template_digest;
    record.created_unix_s = created_unix_s;
    CacheOptions options;
    options.file = cache_file();
    Cache(options).store_record(record, {});
  };
  const auto uses = [&] {
    std::map<std::string, int> counts;
    const nlohmann::json list = run_json({"cache", "list"});
    for (const nlohmann::json& record : list["records"]) ++counts[record["use"]];
    return counts;
  };
  const auto prune = [&] {
    std::map<std::string, int> reasons;
    const nlohmann::json pruned = run_json({"cache", "prune"});
    for (const nlohmann::json& record : pruned["records"]) ++reasons[record["reason"]];
    return reasons;
  };
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(run({"cache", "clear"}).code, 0);
  store("of last year", 1'700'000'000);
  EXPECT_EQ(uses(), (Counts{{"older", 1}}));
  EXPECT_EQ(prune(), Counts{}) << "it is used until there is a better one";
  EXPECT_NE(run({"cache", "list"}).out.find("older"), std::string::npos);
  EXPECT_NE(run({"cache", "show", "1"}).out.find("older: of earlier templates"), std::string::npos);
  EXPECT_EQ(run_json({"cache", "show", "1"})["use"], "older");
  expect_rejected({"cache", "export", path("no/folder.db")}, {"folder.db"}, 1);
  EXPECT_NE(run({"cache", "export", "--records", path("none.jsonl")}).out.find("0 records"), std::string::npos);

  store("of last month", 1'710'000'000);
  EXPECT_EQ(prune(), (Counts{{"measured again since", 1}}));
  EXPECT_EQ(run_json({"cache", "list"})["records"][0]["template_digest"], "of last month") << "the newest is the one in use";
  store("", 1'600'000'000);
  EXPECT_EQ(uses(), (Counts{{"older", 1}, {"exact", 1}}));
  EXPECT_EQ(prune(), (Counts{{"measured again since", 1}})) << "whatever the clock said when the exact one was measured";
  EXPECT_EQ(uses(), (Counts{{"exact", 1}}));
}

TEST_F(CacheCommandTest, PruneByAgeAndSizeTakesUsableBinariesToo) {
  const std::shared_ptr<Compiler> compiler = open_compiler(DeviceInfo::Kind::host, EngineOptions());
  const Op& op = find_op("softmax");
  // Binaries that this version would find, but for their images; stored in 2020 and 2033.
  const auto store = [&](std::int64_t cols, std::int64_t created_unix_s) {
    const Problem problem = op.normalize({"softmax", {{"rows", std::int64_t{4}}, {"cols", cols}}});
    const ParsedProblemPtr parsed = op.parse(problem);
    const Config config = parsed->default_config(generic_device({9, 0, 'a'}));
    const std::string source = render(*parsed, config);
    StoredBinary stored;
    stored.binary.op = "softmax";
    stored.binary.arch = "sm_90a";
    stored.binary.toolchain = compiler->identity();
    stored.binary.fingerprint = binary_fingerprint(*compiler, {9, 0, 'a'}, KernelSource(*parsed, config).key());
    stored.binary.source_hash = hash_hex(source);
    stored.binary.image = std::string(700'000, 'x');
    stored.created_unix_s = created_unix_s;
    Connection connection = Connection::open_file(cache_file(), Connection::Access::read_write, 0);
    write_binary(connection, stored);
    write_source(connection, stored.binary.source_hash, source);
    return stored.binary.fingerprint;
  };
  EXPECT_EQ(run({"cache", "clear"}).code, 0);
  const std::string old = store(64, 1'600'000'000), recent = store(128, 2'000'000'000);
  EXPECT_EQ(run_json({"cache", "prune"})["removed"]["binaries"], 0);

  const nlohmann::json aged = run_json({"cache", "prune", "--older-than", "30", "--dry-run"})["binaries"];
  ASSERT_EQ(aged.size(), 1u);
  EXPECT_EQ(aged[0]["fingerprint"], old);
  EXPECT_EQ(aged[0]["reason"], "older than 30 days");

  const nlohmann::json sized = run_json({"cache", "prune", "--max-size", "1"});
  ASSERT_EQ(sized["binaries"].size(), 1u);
  EXPECT_EQ(sized["binaries"][0]["fingerprint"], old);
  EXPECT_EQ(sized["binaries"][0]["reason"], "size");
  EXPECT_EQ(sized["kept"]["binaries"], 1);
  EXPECT_LE(sized["bytes_after"], 1 << 20);
}

TEST_F(CacheCommandTest, PruneKnowsAnotherToolchain) {
  EXPECT_EQ(run({"run", "softmax", "--rows", "2", "--cols", "64", "--device", "host"}).code, 0);
  CacheOptions options;
  options.file = cache_file();
  {
    Cache cache(options);
    for (const BinaryInfo& found : cache.list_binaries()) {
      if (found.fingerprint == std::string(32, 'a')) continue;
      BinaryRecord binary;
      binary.fingerprint = std::string(32, 'c') + "-" + std::string(32, 'c');
      binary.source_hash = found.source_hash;
      binary.op = found.op;
      binary.arch = found.arch;
      binary.toolchain = found.toolchain + " of last year";
      binary.image = "image";
      cache.store_binary(binary, cache.find_source(found.source_hash).value());
    }
  }
  const nlohmann::json pruned = run_json({"cache", "prune"})["binaries"];
  ASSERT_EQ(pruned.size(), 2u);
  EXPECT_EQ(pruned[0]["reason"], "other templates");
  EXPECT_EQ(pruned[1]["fingerprint"], std::string(32, 'c') + "-" + std::string(32, 'c'));
  EXPECT_EQ(pruned[1]["reason"], "another toolchain");
  EXPECT_EQ(run_json({"cache", "info"})["sources"], 1) << "the usable binary needs it";
}

TEST_F(CacheCommandTest, RecordsTravelAsText) {
  {
    CacheOptions options;
    options.file = cache_file();
    Cache cache(options);
    cache.store_record(current_record(512), {});
    cache.store_record(current_record(256), {});
  }
  const std::string lines = path("records.jsonl");
  const Outcome outcome = run({"cache", "export", "--records", lines});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 records"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("2 omitted"), std::string::npos) << outcome.out;
  const std::string text = read("records.jsonl");
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  expect_rejected({"cache", "export", "--records", lines}, {lines}, 1);

  EXPECT_EQ(run({"cache", "import", lines, "--cache", path("other.db")}).code, 0);
  const nlohmann::json records = run_json({"cache", "list", "--cache", path("other.db")})["records"];
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["n_cols"], 256);
  EXPECT_EQ(records[0]["config"], current_record(256).config);
  EXPECT_EQ(run({"cache", "export", "--records", path("again.jsonl"), "--cache", path("other.db")}).code, 0);
  EXPECT_EQ(read("again.jsonl"), text);
  const std::string shown = run({"cache", "show", "1", "--cache", path("other.db")}).out;
  EXPECT_NE(shown.find("\n\nno trials: "), std::string::npos) << shown;

  write("broken.jsonl", text + "{}\n");
  expect_rejected({"cache", "import", path("broken.jsonl")}, {"broken.jsonl:3", "'op' is missing"}, 1);
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
