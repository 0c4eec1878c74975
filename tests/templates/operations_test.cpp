// All operations: problems that they reject (rejected.txt), and the rules that search spaces follow.

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "templates/row_program/language/programs.h"
#include "tests/support/cases.h"
#include "tests/support/source_folder.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

TEST(Operations, RejectWhatTheyCannotCompute) {
  std::ifstream file(source_folder() / "tests/templates/rejected.txt");
  int problems = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t space = line.find(' '), bar = line.find(" | ");
    std::string message, parts = line.substr(bar + 3) + " | ";
    try {
      message = "accepted as " + test::normalized(line.substr(0, space), line.substr(space + 1, bar - space - 1)).text();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << line;
      message = error.what();
    }
    for (std::size_t at = 0, end = 0; (end = parts.find(" | ", at)) != std::string::npos; at = end + 3)
      EXPECT_NE(message.find(parts.substr(at, end - at)), std::string::npos) << line << ": " << message;
    ++problems;
  }
  EXPECT_GT(problems, 70);
}

/// Checks the search spaces of a problem on some architectures. Returns the most candidates.
std::size_t check_spaces(const Problem& problem, Effort effort, std::initializer_list<const char*> archs) {
  std::size_t most = 0;
  const ParsedProblemPtr parsed = find_op(problem.op).parse(problem);
  for (const char* arch : archs) {
    const DeviceInfo device = generic_device(parse_arch(arch));
    SCOPED_TRACE(problem.text() + " on " + arch);
    const std::vector<Config> space = parsed->search_space(device, effort);
    std::set<std::string> texts;
    for (const Config& config : space) {
      EXPECT_EQ(parsed->why_invalid(device, config), "") << config.text();
      EXPECT_TRUE(texts.insert(config.text()).second) << config.text() << " is there twice";
      if (texts.size() % 5 != 0) continue;  // check every fifth
      EXPECT_EQ(parsed->complete_config(device, config).text(), config.text());
      EXPECT_EQ(Config{parse_fields(config.text(), "config")}, config) << config.text();
    }
    EXPECT_TRUE(!space.empty() && space.front() == parsed->default_config(device)) << "the default is not first";
    EXPECT_NE(parsed->why_invalid(device, Config{parse_fields("variant=none", "config")}), "");
    for (const Config& config : parsed->search_space(device, Effort::quick))
      EXPECT_TRUE(texts.contains(config.text())) << config.text() << " is in the quick space alone";
    most = std::max(most, space.size());
  }
  return most;
}

struct SpaceCase {
  std::vector<std::string> ops;
  std::size_t max_quick, max_full;  ///< candidates
  std::vector<std::string> fields;
};

const SpaceCase space_cases[] = {
    {{"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"},
     24,
     220,
     {"rows=4096,cols=1", "rows=4096,cols=37", "rows=4096,cols=128,dtype=bf16", "rows=4096,cols=781", "rows=4096,cols=1024",
      "rows=1,cols=1024,dtype=f16,out_dtype=f32", "rows=4096,cols=8192,in_place=1", "rows=4096,cols=32000,dtype=bf16",
      "rows=4096,cols=50257", "rows=16,cols=262144,dtype=f16", "rows=1,cols=1048576", "rows=0,cols=64",
      "rows=2048,cols=2048,dtype=bf16,scale=0.125,causal=1,safe=1", "rows=64,cols=20000,mask=keep,valid_cols=1",
      "rows=75,cols=66528", "rows=60,cols=71755,dtype=bf16"}},
    {{"cross_entropy", "cross_entropy_backward", "cross_entropy_shard"},
     24,
     220,
     {"rows=8192,cols=1000,dtype=bf16", "rows=8192,cols=32000", "rows=8192,cols=128256", "rows=8192,cols=1000000"}},
    {{"cross_entropy"}, 24, 220, {"rows=8192,cols=1000,gradient=in_place", "rows=8192,cols=128256,gradient=in_place"}},
    {{"cross_entropy_combine"}, 24, 220, {"rows=8192,shards=8,vocab_size=32000"}},
    {{"cross_entropy", "cross_entropy_backward"},
     60,
     300,
     {"rows=8,cols=21,inner=262144", "rows=8,cols=19,inner=131072,dtype=bf16", "rows=16,cols=128256,inner=4,dtype=bf16",
      "rows=2000,cols=60,logits_col_stride=2000,logits_row_stride=1"}},
    {{"attention", "attention_backward"},
     100,
     450,
     {"seq_q=4096,head_dim=128", "seq_q=1,seq_kv=999,head_dim=256,dtype=f32", "seq_q=999,head_dim=256",
      "seq_q=999,head_dim=192,head_dim_v=128", "seq_q=77,head_dim=8,heads=4,kv_heads=1"}},
    {{"copy"},
     100,
     400,
     {"elements=0", "elements=1000", "elements=100000000,dtype=bf16,inputs=2", "elements=5000000,in_place=1",
      "elements=5000000,inputs=2,in_place=1", "elements=5000000,dtype=bf16,write=0"}},
};

TEST(SearchSpaces, AreValidDistinctAndStartWithTheDefault) {
  for (const SpaceCase& each : space_cases)
    for (const std::string& op : each.ops)
      for (const std::string& fields : each.fields) {
        const Problem problem = test::normalized(op, fields);
        EXPECT_LE(check_spaces(problem, Effort::full, {"sm_75", "sm_90a", "sm_100a"}), each.max_full) << problem.text();
        EXPECT_LE(check_spaces(problem, Effort::quick, {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}),
                  each.max_quick)
            << problem.text();
      }
}

TEST(SearchSpaces, OfRowProgramsAreValidDistinctAndStartWithTheDefault) {
  for (const auto& [name, text] : row_program::shipped_programs())
    for (const char* fields : {"rows=4096,cols=4096,dtype=bf16", "rows=20,cols=65536"}) {
      Problem problem{"row_program", parse_fields(fields, "fields")};
      problem.fields.set("program", std::string(text));
      if (text.find("num seed") != std::string_view::npos) problem.fields.set("numbers", std::string("seed=7"));
      check_spaces(find_op("row_program").normalize(problem), Effort::quick, {"sm_75", "sm_80", "sm_90a"});
    }
}

}  // namespace
}  // namespace tunesmith
