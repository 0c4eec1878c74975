// score_mod and mask_mod on the command line: sources and arrays from files, and the report.

#include <cmath>
#include <cstring>

#include "tests/api/cli/process.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith::cli {
namespace {

const std::vector<std::string> small{"--heads", "2", "--seq-q", "20", "--head-dim", "8", "--dtype", "f32"};

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), small.begin(), small.end());
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// A .npy file of floats.
std::string npy(const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(values.size()) + ",), }";
  header.resize(128 - 10 - 1, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return bytes;
}

TEST_F(CliTest, ASourceComesFromAFileAndItsArraysToo) {
  const std::string source_file = write("alibi.cu", test::mod_example("alibi"));
  const std::string slopes = write("slopes.npy", npy({0.25F, 0.5F}));
  const Outcome outcome = run(joined({"run", "attention"}, {"--device", "host", "--score-mod", source_file, "--input",
                                                            "slopes=" + slopes, "--output", "o=" + path("o.npy")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("score_mod=<"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("__device__"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("score_mod and mask_mod as the device evaluates them alone"), std::string::npos) << outcome.out;
  // The built-in option gives the same numbers except for rounding.
  const Outcome option = run(joined({"run", "attention"}, {"--device", "host", "--option", "alibi=1", "--input",
                                                           "alibi_slopes=" + slopes, "--output", "o=" + path("p.npy")}));
  ASSERT_EQ(option.code, 0) << option.err;
  const std::string a = read("o.npy"), b = read("p.npy");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t at = 128; at < a.size(); at += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data() + at, 4);
    std::memcpy(&y, b.data() + at, 4);
    ASSERT_NEAR(x, y, 1e-5) << at;
  }
}

// ALiBi as a function, and as the option that has a gradient of its own.
TEST_F(CliTest, ArraysOfASourceHaveGradients) {
  const std::string source_file = write("alibi.cu", test::mod_example("alibi"));
  const std::string slopes = write("slopes.npy", npy({0.25F, 0.5F}));
  const nlohmann::json report = run_json(joined(
      {"run", "attention_backward"}, {"--device", "host", "--score-mod", source_file, "--input", "slopes=" + slopes,
                                      "--daux", "slopes", "--deterministic", "--output", "daux_slopes=" + path("a.npy")}));
  EXPECT_TRUE(report["verified"]);
  EXPECT_EQ(report["problem"]["daux"], "slopes");
  (void)run_json(joined({"run", "attention_backward"}, {"--device", "host", "--alibi", "--dslopes", "--input",
                                                        "alibi_slopes=" + slopes, "--output", "dslopes=" + path("b.npy")}));
  const std::string a = read("a.npy"), b = read("b.npy");
  ASSERT_EQ(a.size(), 128U + 2 * 4);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t at = 128; at < a.size(); at += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data() + at, 4);
    std::memcpy(&y, b.data() + at, 4);
    EXPECT_NE(x, 0);
    EXPECT_NEAR(x, y, 1e-4 * (1 + std::fabs(x))) << at;
  }
  const Outcome wrong =
      run(joined({"run", "attention_backward"}, {"--device", "host", "--score-mod", source_file, "--daux", "offset"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("daux names 'offset', which is a number"), std::string::npos) << wrong.err;
}

TEST_F(CliTest, NumbersAreGivenAsAnOption) {
  const std::string source_file = write("window.cu", test::mod_example("dilated_window"));
  const nlohmann::json report = run_json(
      joined({"run", "attention"}, {"--device", "host", "--mask-mod", source_file, "--option", "aux=window:i32=3"}));
  EXPECT_EQ(report["problem"]["aux"], "window:i32=3;dilation:i32=2;offset:i32=seq_kv-seq_q");
  EXPECT_EQ(report["problem"]["mask_mod"], test::mod_example("dilated_window"));
  EXPECT_TRUE(report["verified"]);
  EXPECT_TRUE(report.contains("check_note"));
  EXPECT_EQ(report["overcounted"], "pairs that mask_mod hides");
}

// A file for the array is enough to say whether it is written or read.
TEST_F(CliTest, TilesOfAMaskGoToAFileAndComeFromOne) {
  const std::string source_file = write("half.cu",
                                        "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n"
                                        "  return k < 64 && q >= 64;\n}\n");
  const std::vector<std::string> problem{"run", "attention",  "--device", "host",       "--seq-q",
                                         "130", "--head-dim", "8",        "--mask-mod", source_file};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = problem;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const nlohmann::json written = run_json(
      with({"--output", "block_mask=" + path("tiles.npy"), "--output", "o=" + path("a.npy"), "--config", "variant=mma"}));
  EXPECT_EQ(written["problem"]["block_mask"], "write");
  EXPECT_TRUE(written["verified"]);
  const std::string tiles = read("tiles.npy");
  EXPECT_NE(tiles.find("(1, 1, 3, 2, 1)"), std::string::npos) << tiles.substr(0, 128);
  ASSERT_EQ(tiles.size(), 128U + 24U);
  std::vector<std::uint32_t> words(6);
  std::memcpy(words.data(), tiles.data() + 128, 24);
  EXPECT_EQ(words, (std::vector<std::uint32_t>{0, ~7U, 1, ~6U, 1, ~6U}));
  const nlohmann::json read_back = run_json(
      with({"--input", "block_mask=" + path("tiles.npy"), "--output", "o=" + path("b.npy"), "--config", "variant=mma"}));
  EXPECT_EQ(read_back["problem"]["block_mask"], "read");
  EXPECT_EQ(read("a.npy"), read("b.npy"));
  // Without a file: words that say nothing.
  EXPECT_TRUE(run_json(with({"--option", "block_mask=read"}))["verified"]);
  const Outcome rendered = run({"source", "attention", "--arch", "sm_80", "--seq-q", "130", "--head-dim", "8", "--mask-mod",
                                source_file, "--option", "block_mask=write"});
  EXPECT_NE(rendered.out.find("\nattention_block_mask(const __grid_constant__ tunesmith::AttentionParams params)"),
            std::string::npos);
  expect_rejected(
      {"run", "attention", "--device", "host", "--seq-q", "130", "--head-dim", "8", "--option", "block_mask=write"},
      {"block_mask is write, but there is no mask_mod"});
}

TEST_F(CliTest, MistakesAreShownInTheUsersLines) {
  const std::string wrong =
      write("wrong.cu",
            "// One line more.\n__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n"
            "  return q < unheard_of;\n}\n");
  const Outcome outcome = run(joined({"run", "attention"}, {"--device", "host", "--mask-mod", wrong}));
  EXPECT_EQ(outcome.code, 1);
  const std::string line = outcome.err.substr(0, outcome.err.find('\n'));
  for (const char* part : {"tunesmith: error: ", "mask_mod.cu:3:", "unheard_of", "in 'return q < unheard_of;'"})
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nlacks " << part;
  expect_rejected(joined({"run", "attention"}, {"--mask-mod", path("none.cu")}), {"--mask-mod", "none.cu", "does not exist"},
                  1);
  expect_rejected(joined({"source", "attention"}, {"--score-mod", wrong}), {"score_mod holds no function score_mod"});
}

}  // namespace
}  // namespace tunesmith::cli
