// The cross-entropy family on the command line: shapes, element types and options that follow from files, and targets that
// are no class.

#include <algorithm>
#include <cmath>

#include "tests/api/cli/arrays.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

class CliCrossEntropy : public CliTest {
 protected:
  CliCrossEntropy() {
    write("logits.npy", npy<float>(NpyType::f4, {3, 4}, logits_));
    write("targets.npy", npy<std::int64_t>(NpyType::i8, {3}, {2, -100, 0}));
    for (std::size_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < 4; ++c) sum += std::exp(static_cast<double>(logits_[r * 4 + c]));
      lse_.push_back(std::log(sum));
    }
  }

  double p(std::size_t r, std::size_t c) const { return std::exp(static_cast<double>(logits_[r * 4 + c]) - lse_[r]); }

  std::vector<std::string> host_run(const std::string& op, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"run", op, "--device", "host"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  /// cross_entropy of the two files, and more.
  std::vector<std::string> of_files(const std::vector<std::string>& more, const std::string& targets = "targets.npy") const {
    std::vector<std::string> arguments =
        host_run("cross_entropy", {"--input", "logits=" + path("logits.npy"), "--input", "targets=" + path(targets)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string to(const std::string& array) const { return array + "=" + path(array + ".npy"); }

  const std::vector<float> logits_{1, 2, 3, 4, 0, 0, 0, 0, 5, -1, 2, 0};
  std::vector<double> lse_;
};

TEST_F(CliCrossEntropy, TheWholeFamilyRunsAndVerifies) {
  for (const char* op : {"cross_entropy", "cross_entropy_backward", "cross_entropy_shard"}) {
    const nlohmann::json report = run_json(host_run(
        op, {"--rows", "5", "--cols", "77", "--dtype", "bf16", "--label-smoothing", "0.1", "--option", "softcap=30"}));
    EXPECT_EQ(report["op"], op);
    EXPECT_EQ(report["verified"], true);
    EXPECT_EQ(report["checked_rows"], 5);
    EXPECT_EQ(report["problem"]["label_smoothing"], 0.1);
  }
  const nlohmann::json report =
      run_json(host_run("cross_entropy_combine", {"--rows", "5", "--shards", "3", "--vocab-size", "50"}));
  EXPECT_EQ(report["verified"], true);
}

// Partials of f64 logits are f64, and their file says so.
TEST_F(CliCrossEntropy, ShardsOfF64Logits) {
  const nlohmann::json shard =
      run_json(host_run("cross_entropy_shard", {"--rows", "5", "--cols", "33", "--dtype", "f64", "--output", to("partials"),
                                                "--option", "argmax=1"}));
  EXPECT_EQ(shard["verified"], true);
  EXPECT_EQ(values_in<double>(read("partials.npy")).size(), 5U * 8);
  const nlohmann::json report = run_json(
      host_run("cross_entropy_combine", {"--input", "partials=" + path("partials.npy"), "--rows", "5", "--shards", "1",
                                         "--vocab-size", "33", "--output", to("lse"), "--option", "argmax=1"}));
  EXPECT_EQ(report["problem"]["dtype"], "f64");
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(values_in<double>(read("lse.npy")).size(), 5U);
}

// Of several shards the rows follow from the number of shards, which no file tells.
TEST_F(CliCrossEntropy, PartialsOfSeveralShards) {
  std::vector<float> partials;
  for (int row = 0; row < 15; ++row) {
    const std::vector<float> one{1, 2, 0, 0, 0, 0, 0, 0};
    partials.insert(partials.end(), one.begin(), one.end());
  }
  write("partials.npy", npy(NpyType::f4, {15, 8}, partials));
  const std::string given = "partials=" + path("partials.npy");
  const nlohmann::json report =
      run_json(host_run("cross_entropy_combine", {"--input", given, "--shards", "3", "--vocab-size", "50"}));
  EXPECT_EQ(report["problem"]["rows"], 5);
  EXPECT_EQ(report["problem"]["shards"], 3);
  EXPECT_EQ(run_json(host_run("cross_entropy_combine",
                              {"--input", given, "--rows", "5", "--shards", "3", "--vocab-size", "50"}))["problem"]["rows"],
            5);
  expect_rejected(host_run("cross_entropy_combine", {"--input", given, "--shards", "4", "--vocab-size", "50"}),
                  {"15 is no multiple of 4"});
  expect_rejected(host_run("cross_entropy_combine", {"--input", given, "--vocab-size", "50"}), {"shards"});
}

TEST_F(CliCrossEntropy, OutputsSwitchTheirOptionsOn) {
  const nlohmann::json report =
      run_json(of_files({"--output", to("loss"), "--output", to("lse"), "--output", to("dlogits"), "--output", to("nll"),
                         "--output", to("argmax"), "--output", to("num_correct")}));
  EXPECT_EQ(report["problem"]["rows"], 3);
  EXPECT_EQ(report["problem"]["cols"], 4);
  EXPECT_EQ(report["problem"]["dtype"], "f32");
  EXPECT_EQ(report["problem"]["target_dtype"], "i64");
  EXPECT_EQ(report["problem"]["gradient"], "separate");
  EXPECT_EQ(report["problem"]["num_correct"], 1);
  const double nll[3] = {lse_[0] - 3, 0, lse_[2] - 5};
  EXPECT_NEAR(values_in<float>(read("loss.npy")).at(0), (nll[0] + nll[2]) / 2, 1e-6);
  const std::vector<float> dlogits = values_in<float>(read("dlogits.npy"));
  ASSERT_EQ(dlogits.size(), 12u);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_NEAR(values_in<float>(read("lse.npy")).at(r), lse_[r], 1e-6);
    EXPECT_NEAR(values_in<float>(read("nll.npy")).at(r), nll[r], 1e-6);
    for (std::size_t c = 0; c < 4; ++c) {
      const bool is_target = r == 0 ? c == 2 : c == 0;
      EXPECT_NEAR(dlogits[r * 4 + c], r == 1 ? 0 : (p(r, c) - (is_target ? 1 : 0)) / 2, 1e-6) << r << "," << c;
    }
  }
  EXPECT_EQ(values_in<std::int64_t>(read("argmax.npy")), (std::vector<std::int64_t>{3, 0, 0}));
  EXPECT_EQ(values_in<std::int64_t>(read("num_correct.npy")), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(run_json(of_files({"--gradient", "in_place", "--output", to("dlogits")}))["problem"]["gradient"], "in_place");
  EXPECT_EQ(values_in<float>(read("dlogits.npy")), dlogits);
}

TEST_F(CliCrossEntropy, InputsSwitchTheirOptionsOn) {
  write("weight.npy", npy<float>(NpyType::f4, {4}, {1, 2, 3, 4}));
  write("one.npy", npy<float>(NpyType::f4, {1}, {8}));
  write("rows.npy", npy<float>(NpyType::f4, {3}, {1, 2, -3}));
  write("narrow.npy", npy<std::int32_t>(NpyType::i4, {3}, {2, -100, 0}));
  nlohmann::json report =
      run_json(of_files({"--input", to("weight"), "--input", "dloss=" + path("one.npy"), "--output", to("dlogits")}));
  EXPECT_EQ(report["problem"]["weight"], 1);
  EXPECT_EQ(report["problem"]["dloss"], "scalar");
  EXPECT_NEAR(values_in<float>(read("dlogits.npy")).at(0), 8 * 3 * p(0, 0) / (3 + 1), 1e-5);
  report = run_json(
      of_files({"--input", "dloss=" + path("rows.npy"), "--output", to("dlogits"), "--reduction", "none"}, "narrow.npy"));
  EXPECT_EQ(report["problem"]["dloss"], "row");
  EXPECT_EQ(report["problem"]["target_dtype"], "i32");
  EXPECT_NEAR(values_in<float>(read("dlogits.npy")).at(8), -3 * (p(2, 0) - 1), 1e-6);

  // What the loss writes is what its gradient reads.
  run_json(of_files({"--output", to("lse"), "--output", to("nll"), "--output", to("dlogits")}));
  const std::vector<float> together = values_in<float>(read("dlogits.npy"));
  write("one.npy", npy<float>(NpyType::f4, {1}, {1}));
  report = run_json(
      host_run("cross_entropy_backward",
               {"--input", "logits=" + path("logits.npy"), "--input", "targets=" + path("targets.npy"), "--input", to("lse"),
                "--input", to("nll"), "--input", "dloss=" + path("one.npy"), "--output", to("dlogits")}));
  EXPECT_EQ(report["problem"]["nll"], 1);
  const std::vector<float> alone = values_in<float>(read("dlogits.npy"));
  ASSERT_EQ(alone.size(), together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], together[i], 1e-6) << i;
}

TEST_F(CliCrossEntropy, LogitsOfF64HaveLossesOfF64) {
  const std::vector<double> logits(logits_.begin(), logits_.end());
  write("logits.npy", npy<double>(NpyType::f8, {3, 4}, logits));
  const nlohmann::json report =
      run_json(of_files({"--output", to("loss"), "--output", to("lse"), "--output", to("dlogits")}));
  EXPECT_EQ(report["problem"]["dtype"], "f64");
  EXPECT_EQ(report["verified"], true);
  EXPECT_LT(report["max_error"], 1e-14);
  // The sum of 4 exponentials is off by up to 2^-51 of it, and its logarithm, between 4 and 8, is rounded by up to 2^-51:
  // 2^-50 here and 2^-50 in the kernel. The loss is a mean of them. The error of lse is the relative error of p / 2 < 1/16.
  EXPECT_NEAR(values_in<double>(read("loss.npy")).at(0), (lse_[0] - 3 + lse_[2] - 5) / 2, 0x1p-48);
  EXPECT_NEAR(values_in<double>(read("lse.npy")).at(0), lse_[0], 0x1p-48);
  EXPECT_NEAR(values_in<double>(read("dlogits.npy")).at(1), p(0, 1) / 2, 0x1p-50);
  write("weight.npy", npy<float>(NpyType::f4, {4}, {1, 2, 3, 4}));
  expect_rejected(of_files({"--input", to("weight")}), {"weight", "of '<f4'", "(f64)"});
}

TEST_F(CliCrossEntropy, FilesThatDoNotFitAreRejected) {
  write("four.npy", npy<std::int64_t>(NpyType::i8, {4}, {0, 1, 2, 3}));
  write("floats.npy", npy<float>(NpyType::f4, {3}, {0, 1, 2}));
  const std::vector<std::string> before = files();
  expect_rejected(of_files({}, "four.npy"), {"rows is 3 by another file, but targets from", "is 4; files must agree"});
  expect_rejected(of_files({"--rows", "4"}), {"rows is 4, but logits from", "3 x 4; leave --rows out"});
  expect_rejected(of_files({}, "floats.npy"), {"targets from", "holds '<f4'; i32 takes '<i4', i64 '<i8'"});
  expect_rejected(of_files({"--target-dtype", "i32"}), {"target_dtype is i32, but targets from", "'<i8'"});
  expect_rejected(of_files({}, "logits.npy"), {"targets from", "2 dimensions (3 x 4)", "takes 1 (rows)"});
  expect_rejected(of_files({"--output", to("z_loss")}), {"'z_loss'; allowed: loss, lse", "comes with --z-loss"});
  expect_rejected(of_files({"--input", "dloss=" + path("floats.npy")}), {"'dloss'", "allowed: logits, targets"});
  expect_rejected(of_files({"--output", to("dlogits"), "--input", "dloss=" + path("floats.npy")}),
                  {"dloss from", "is 3 of '<f4'", "takes 1"});
  expect_rejected(of_files({"--gradient", "none", "--output", to("dlogits")}), {"'dlogits'", "allowed: loss, lse"});
  expect_rejected(of_files({"--label-smoothing", "2"}), {"label_smoothing is 2", "0 to 1"});
  expect_rejected(host_run("softmax", {"--rows", "2", "--cols", "4", "--output", to("nll")}), {"'nll'; allowed: y"});
  EXPECT_EQ(files(), before);
}

TEST_F(CliCrossEntropy, BadTargetsFailTheRunOnRequest) {
  write("bad.npy", npy<std::int64_t>(NpyType::i8, {3}, {0, 4, -1}));
  const Outcome outcome = run(of_files({"--check-targets", "--output", to("loss")}, "bad.npy"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "tunesmith: error: targets[1] is 4; allowed: 0 to 3, or ignore_index -100 (2 rows in all); no output was "
            "written\n");
  EXPECT_NE(outcome.out.find("check_targets=1"), std::string::npos) << outcome.out;
  EXPECT_EQ(std::ranges::count(files(), "loss.npy"), 0);
  run_json(of_files({"--check-targets"}));
  run_json(of_files({"--output", to("bad_targets")}, "bad.npy"));  // looked at by the caller
  EXPECT_EQ(values_in<std::int64_t>(read("bad_targets.npy")), (std::vector<std::int64_t>{2, 1}));
  expect_rejected(host_run("softmax", {"--rows", "2", "--cols", "4", "--check-targets"}),
                  {"run softmax has no flag --check-targets"});
}

TEST_F(CliCrossEntropy, TheSourceSaysWhatItIsFor) {
  const Outcome outcome = run({"source", "cross_entropy", "--rows", "8192", "--cols", "128256", "--dtype", "bf16", "--arch",
                               "sm_90a", "--gradient", "in_place", "--label-smoothing", "0.1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text :
       {"cross_entropy, generated by Tunesmith", "cols = 128256", "targets i64, dlogits in place of logits",
        "label smoothing", ".gradient = true,", ".smoothing = true,"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace tunesmith::cli
