// Attention on the command line: shapes that follow from files in both orders, packed sequences, and names that are flags
// here and options of other operations.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/api/cli/arrays.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

class CliAttention : public CliTest {
 protected:
  std::vector<std::string> host_run(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"run", "attention", "--device", "host"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string of(const std::string& array) const { return array + "=" + path(array + ".npy"); }
  /// Of q.npy, k.npy and v.npy.
  std::vector<std::string> of_files(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = host_run({"--input", of("q"), "--input", of("k"), "--input", of("v")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  /// An array of zeros.
  void write_zeros(const std::string& array, const std::vector<std::int64_t>& shape) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    write(array + ".npy", npy<float>(NpyType::f4, shape, std::vector<float>(static_cast<std::size_t>(elements))));
  }
  void write_starts(const std::string& array, const std::vector<std::int32_t>& starts) {
    write(array + ".npy", npy<std::int32_t>(NpyType::i4, {static_cast<std::int64_t>(starts.size())}, starts));
  }
};

TEST_F(CliAttention, RunsAndVerifies) {
  const nlohmann::json report =
      run_json(host_run({"--batch",       "2",      "--heads",   "4",    "--kv-heads", "2",
                         "--seq-q",       "9",      "--seq-kv",  "20",   "--head-dim", "16",
                         "--head-dim-v",  "8",      "--layout",  "bhsd", "--causal",   "bottom-right",
                         "--window-left", "5",      "--softcap", "20",   "--scale",    "0.2",
                         "--option",      "sinks=1"}));
  EXPECT_EQ(report["op"], "attention");
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["checked_rows"], 2 * 4 * 9);
  EXPECT_EQ(report["problem"]["kv_heads"], 2);
  EXPECT_EQ(report["problem"]["head_dim_v"], 8);
  EXPECT_EQ(report["problem"]["dtype"], "bf16");
  EXPECT_EQ(report["problem"]["causal"], "bottom-right");
  EXPECT_EQ(report["problem"]["window_left"], 5);
  EXPECT_EQ(report["problem"]["scale"], 0.2);
  EXPECT_EQ(report["problem"]["softcap"], 20);
  EXPECT_GT(report["flops"], 0);
}

// Runs the forward pass first, because no files give o and lse.
TEST_F(CliAttention, BackwardRunsAndVerifies) {
  const nlohmann::json report =
      run_json({"run", "attention_backward", "--device", "host", "--heads", "4", "--kv-heads", "2", "--seq-q", "9",
                "--seq-kv", "20", "--head-dim", "16", "--causal", "bottom-right", "--option", "dlse=1"});
  EXPECT_EQ(report["op"], "attention_backward");
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["checked_rows"], 4 * 9 + 2 * 20);
}

TEST_F(CliAttention, BackwardNeedsBothOutputsOfTheForwardPass) {
  write_zeros("o", {1, 9, 2, 16});
  const Outcome result = run({"run", "attention_backward", "--device", "host", "--heads", "2", "--seq-q", "9", "--head-dim",
                              "16", "--dtype", "f32", "--input", of("o")});
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.err.find("o is given without lse"), std::string::npos) << result.err;
}

TEST_F(CliAttention, ShapesFollowFromTheFiles) {
  // All scores alike: o is the mean of the values, lse the logarithm of how many there are.
  write_zeros("q", {2, 3, 4, 8});
  write_zeros("k", {2, 5, 2, 8});
  std::vector<float> values(2 * 5 * 2 * 16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 37);
  write("v.npy", npy<float>(NpyType::f4, {2, 5, 2, 16}, values));
  const nlohmann::json report = run_json(of_files({"--output", of("o"), "--output", of("lse")}));
  EXPECT_EQ(report["problem"], nlohmann::json::parse(R"({"batch": 2, "heads": 4, "kv_heads": 2, "seq_q": 3, "seq_kv": 5,
      "head_dim": 8, "head_dim_v": 16, "dtype": "f32", "layout": "bshd"})"));
  EXPECT_EQ(report["verified"], true);
  const std::string written = read("o.npy");
  EXPECT_NE(written.find("'shape': (2, 3, 4, 16)"), std::string::npos);
  const std::vector<float> o = floats_in(written);
  ASSERT_EQ(o.size(), 2u * 3 * 4 * 16);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t h = 0; h < 4; ++h)
      for (std::size_t c = 0; c < 16; ++c) {
        float mean = 0;
        for (std::size_t j = 0; j < 5; ++j) mean += values[((b * 5 + j) * 2 + h / 2) * 16 + c] / 5;
        EXPECT_NEAR(o[((b * 3 + 1) * 4 + h) * 16 + c], mean, 1e-5) << b << "," << h << "," << c;
      }
  EXPECT_NE(read("lse.npy").find("'shape': (2, 4, 3)"), std::string::npos);
  for (const float lse : floats_in(read("lse.npy"))) EXPECT_NEAR(lse, std::log(5), 1e-6);

  // Some of the arrays: what they do not tell has its default, and the others are random.
  const nlohmann::json one = run_json(host_run({"--input", of("q"), "--kv-heads", "1"}));
  EXPECT_EQ(one["problem"]["heads"], 4);
  EXPECT_EQ(one["problem"]["kv_heads"], 1);
  EXPECT_EQ(one["problem"]["seq_kv"], 3);
  EXPECT_EQ(one["problem"]["head_dim_v"], 8);
  EXPECT_EQ(one["verified"], true);
  const nlohmann::json other = run_json(host_run({"--input", of("v"), "--seq-q", "1", "--heads", "6", "--head-dim", "8"}));
  EXPECT_EQ(other["problem"]["batch"], 2);
  EXPECT_EQ(other["problem"]["kv_heads"], 2);
  EXPECT_EQ(other["problem"]["seq_kv"], 5);
  EXPECT_EQ(other["problem"]["head_dim_v"], 16);
}

TEST_F(CliAttention, HeadsMayComeFirst) {
  write_zeros("q", {2, 4, 3, 8});
  write_zeros("k", {2, 2, 5, 8});
  write_zeros("v", {2, 2, 5, 16});
  write("sinks.npy", npy<float>(NpyType::f4, {4}, {0, 1, 2, 3}));
  const nlohmann::json report = run_json(of_files(
      {"--layout", "bhsd", "--causal", "top-left", "--output", of("o"), "--output", of("lse"), "--input", of("sinks")}));
  EXPECT_EQ(report["problem"]["heads"], 4);
  EXPECT_EQ(report["problem"]["kv_heads"], 2);
  EXPECT_EQ(report["problem"]["seq_q"], 3);
  EXPECT_EQ(report["problem"]["seq_kv"], 5);
  EXPECT_EQ(report["problem"]["sinks"], 1);  // the file switches it on
  EXPECT_NE(read("o.npy").find("'shape': (2, 4, 3, 16)"), std::string::npos);
  const std::vector<float> lse = floats_in(read("lse.npy"));
  ASSERT_EQ(lse.size(), 24u);
  for (std::size_t h = 0; h < 4; ++h)
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(lse[h * 3 + i], std::log(static_cast<double>(i + 1) + std::exp(static_cast<double>(h))), 1e-6)
          << h << "," << i;
}

TEST_F(CliAttention, PackedSequences) {
  write_zeros("q", {7, 4, 8});
  write_zeros("k", {9, 2, 8});
  write_zeros("v", {9, 2, 8});
  write_starts("cu_seqlens_q", {0, 2, 2, 7});
  write_starts("cu_seqlens_kv", {0, 4, 5, 9});
  const std::vector<std::string> lengths{"--seq-q", "5", "--seq-kv", "4", "--output", of("lse")};
  std::vector<std::string> starts{"--input", of("cu_seqlens_q"), "--input", of("cu_seqlens_kv")};
  starts.insert(starts.end(), lengths.begin(), lengths.end());
  const nlohmann::json report = run_json(of_files(starts));
  EXPECT_EQ(report["problem"]["varlen"], 1);  // the files switch it on
  EXPECT_EQ(report["problem"]["batch"], 3);
  EXPECT_EQ(report["problem"]["total_q"], 7);
  EXPECT_EQ(report["problem"]["total_kv"], 9);
  EXPECT_EQ(report["problem"]["heads"], 4);
  EXPECT_EQ(report["problem"]["kv_heads"], 2);
  EXPECT_EQ(report["verified"], true);
  EXPECT_NE(read("lse.npy").find("'shape': (4, 7)"), std::string::npos);
  for (const float lse : floats_in(read("lse.npy"))) EXPECT_NEAR(lse, std::log(4), 1e-6);

  // Kernels trust where sequences start, so that it is looked at before.
  const auto rejects = [&](const std::string& array, const std::vector<std::int32_t>& wrong,
                           const std::vector<std::int32_t>& right, const std::vector<std::string>& parts) {
    write_starts(array, wrong);
    expect_rejected(of_files(starts), parts);
    write_starts(array, right);
  };
  rejects("cu_seqlens_q", {1, 2, 2, 7}, {0, 2, 2, 7}, {"cu_seqlens_q[0] is 1; expected 0"});
  rejects("cu_seqlens_q", {0, 3, 2, 7}, {0, 2, 2, 7}, {"cu_seqlens_q[2] is 2", "at least the entry before it, 3"});
  rejects("cu_seqlens_q", {0, 1, 1, 7}, {0, 2, 2, 7}, {"cu_seqlens_q[3] is 7", "at most 6", "seq_q = 5"});
  rejects("cu_seqlens_kv", {0, 4, 8, 10}, {0, 4, 5, 9}, {"cu_seqlens_kv[3] is 10; expected at most total_kv, 9"});
  rejects("cu_seqlens_kv", {0, 4, 9}, {0, 4, 5, 9}, {"batch is 2 by another file", "cu_seqlens_q", "is 4"});
  expect_rejected(of_files({"--varlen=0", "--input", of("cu_seqlens_q")}), {"'cu_seqlens_q'", "allowed: q, k, v"});
}

TEST_F(CliAttention, KeysInPages) {
  write_zeros("q", {3, 1, 4, 8});
  write_zeros("k", {5, 2, 2, 8});
  write_zeros("v", {5, 2, 2, 8});
  const auto write_table = [&](const std::vector<std::int32_t>& entries) {
    write("block_table.npy", npy<std::int32_t>(NpyType::i4, {3, 4}, entries));
  };
  // Entries that no length reaches are not pages.
  const std::vector<std::int32_t> table{4, 0, 2, -1, -7, 99, -1, -1, 1, 3, 0, 4};
  write_table(table);
  write_starts("kv_lengths", {5, 0, 8});
  const std::vector<std::string> pages{"--page-size",    "2",        "--input", of("block_table"), "--input",
                                       of("kv_lengths"), "--output", of("lse")};
  const nlohmann::json report = run_json(of_files(pages));
  EXPECT_EQ(report["problem"]["batch"], 3);
  EXPECT_EQ(report["problem"]["pages"], 5);
  EXPECT_EQ(report["problem"]["max_pages"], 4);
  EXPECT_EQ(report["problem"]["seq_kv"], 8);
  EXPECT_EQ(report["verified"], true);
  const std::vector<float> lse = floats_in(read("lse.npy"));
  ASSERT_EQ(lse.size(), 12u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(lse[i], std::log(5), 1e-6);
    EXPECT_EQ(lse[4 + i], -std::numeric_limits<float>::infinity());
    EXPECT_NEAR(lse[8 + i], std::log(8), 1e-6);
  }
  // Kernels trust them, so they are checked before.
  write_starts("kv_lengths", {5, 0, 9});
  expect_rejected(of_files(pages), {"kv_lengths[2] is 9; expected 0 to 8"});
  write_starts("kv_lengths", {7, 0, 8});
  expect_rejected(of_files(pages), {"block_table[0,3] is -1; expected 0 to 4"});
  write_starts("kv_lengths", {5, 0, 8});
  expect_rejected(of_files({"--page-size", "3", "--input", of("block_table"), "--input", of("kv_lengths")}),
                  {"page_size is 3", "k from", "give the file's"});
}

TEST_F(CliAttention, FilesThatDoNotFitAreRejected) {
  write_zeros("q", {2, 3, 4, 8});
  write_zeros("k", {2, 5, 2, 8});
  write_zeros("v", {2, 5, 2, 16});
  write_zeros("flat", {24, 8});
  write_zeros("three", {2, 5, 3, 16});
  write_zeros("wide", {2, 5, 2, 12});
  write("half.npy", npy<std::uint16_t>(NpyType::f2, {2, 5, 2, 16}, std::vector<std::uint16_t>(320)));
  const std::vector<std::string> before = files();
  const auto with = [&](const std::string& array, const std::string& file, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--input", array + "=" + path(file + ".npy")});
    for (const char* other : {"q", "k", "v"})
      if (other != array) more.insert(more.end(), {"--input", of(other)});
    return host_run(more);
  };
  expect_rejected(with("q", "flat"), {"q from '" + path("flat.npy") + "' has 2 dimensions (24 x 8)",
                                      "attention takes 4 (batch x seq_q x heads x head_dim)"});
  expect_rejected(with("q", "flat", {"--layout", "bhsd"}), {"attention takes 4 (batch x heads x seq_q x head_dim)"});
  expect_rejected(with("q", "flat", {"--varlen"}),
                  {"k from", "has 4 dimensions", "attention takes 3 (total_kv x kv_heads x head_dim)"});
  expect_rejected(with("v", "three"), {"kv_heads is 2 by another file, but v from", "2 x 5 x 3 x 16; files must agree"});
  expect_rejected(with("k", "three"), {"head_dim is 16 by another file, but q from", "2 x 3 x 4 x 8"});
  expect_rejected(with("v", "wide"), {"head_dim_v is 12", "8 to 256 in steps of 8"});
  expect_rejected(with("v", "half"), {"dtype is f32, but v from", "'<f2'"});
  expect_rejected(of_files({"--layout", "bhsd"}), {"heads is 3 and kv_heads is 5; heads must be a multiple of kv_heads"});
  expect_rejected(of_files({"--seq-kv", "6"}), {"seq_kv is 6, but k from", "2 x 5 x 2 x 8; leave --seq-kv out"});
  expect_rejected(of_files({"--input", "o=" + path("q.npy")}), {"'o'; allowed: q, k, v"});
  expect_rejected(of_files({"--output", "q=" + path("x.npy")}), {"'q'; allowed: o, lse"});
  EXPECT_EQ(files(), before);
}

TEST_F(CliAttention, CausalIsAChoiceHereAndASwitchElsewhere) {
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--seq-q", "4", "--head-dim", "8"});
    return host_run(more);
  };
  EXPECT_EQ(run_json(with({"--option", "causal=top-left", "--scale", "0.5"}))["problem"]["causal"], "top-left");
  EXPECT_EQ(run_json(with({"--causal"}))["problem"]["causal"], "bottom-right");
  EXPECT_EQ(run_json(with({"--causal=top-left"}))["problem"]["causal"], "top-left");
  EXPECT_EQ(run_json(with({"--causal", "none"}))["problem"].contains("causal"), false);
  expect_rejected(with({"--causal", "1"}), {"causal is '1'; allowed: none, top-left, bottom-right"});
  expect_rejected(with({"--causal", "top-left", "--option", "causal=none"}), {"causal is given twice", "--causal"});
  expect_rejected(with({"--rows", "1"}), {"attention has no flag --rows", "run attention --help"});
  expect_rejected(host_run({"--seq-q", "4"}), {"head_dim is missing; attention needs seq_q and head_dim"});
  expect_rejected({"run", "softmax", "--rows", "8", "--cols", "8", "--causal", "top-left"}, {"causal is 'top-left'"});
}

TEST_F(CliAttention, TheSourceSaysWhatItIsFor) {
  const Outcome outcome = run({"source", "attention", "--heads", "32", "--kv-heads", "8", "--seq-q", "4096", "--head-dim",
                               "128", "--causal", "bottom-right", "--sinks", "--arch", "sm_90a"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text : {"attention, generated by Tunesmith", ".head_dim = 128,", "__global__"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << " in:\n" << outcome.out.substr(0, 2000);
}

TEST_F(CliAttention, PrewarmMakesItReady) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string spec = write("spec.json", R"({"problems": [{"op": "attention", "seq_q": [64, 128], "head_dim": 64,
      "heads": 8, "kv_heads": [2, 8], "causal": ["none", "top-left"], "dtype": "f32"}]})");
  const nlohmann::json report = run_json({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_80"});
  EXPECT_EQ(report["problems"], 8);
  EXPECT_TRUE(report["failed"].empty());
  EXPECT_EQ(report["done"], report["total"]);
}

}  // namespace
}  // namespace tunesmith::cli
