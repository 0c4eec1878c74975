// Options of operations and the arrays that they enable: flags, --option, and files of masks and lengths.

#include <cmath>

#include "tests/api/cli/arrays.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

std::vector<std::string> host_run(const std::string& op, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"run", op, "--device", "host"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(CliTest, TheWholeFamilyRunsAndVerifies) {
  for (const char* op : {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"}) {
    const nlohmann::json plain = run_json(host_run(op, {"--rows", "5", "--cols", "77"}));
    EXPECT_EQ(plain["op"], op);
    EXPECT_EQ(plain["verified"], true);
    EXPECT_FALSE(plain["problem"].contains("scale")) << plain["problem"];
    const nlohmann::json masked =
        run_json(host_run(op, {"--rows", "6", "--cols", "50", "--dtype", "bf16", "--scale", "0.125", "--mask", "keep",
                               "--mask-inner", "3", "--valid-cols", "--valid-cols-group", "2", "--option", "safe=1"}));
    EXPECT_EQ(masked["verified"], true);
    EXPECT_EQ(masked["checked_rows"], 6);
    EXPECT_EQ(masked["problem"]["scale"], 0.125);
    EXPECT_EQ(masked["problem"]["mask"], "keep");
    EXPECT_EQ(masked["problem"]["mask_inner"], 3);
    EXPECT_EQ(masked["problem"]["safe"], 1);
  }
}

TEST_F(CliTest, TheTableNamesTheOptionsThatAreSet) {
  const Outcome outcome = run(host_run("log_softmax", {"--rows", "4", "--cols", "9", "--causal"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("problem    rows=4,cols=9,dtype=f32,causal=1\n"), std::string::npos) << outcome.out;
}

TEST_F(CliTest, MasksAndLengthsFromFiles) {
  // (batch, heads, queries, keys) = (2, 2, 1, 3); a mask for each batch, under all its heads.
  write("x.npy", npy<float>(NpyType::f4, {4, 3}, std::vector<float>(12, 1.0f)));
  const std::vector<std::uint8_t> keep{1, 0, 7, 0, 1, 1};
  write("u1.npy", npy(NpyType::u1, {2, 1, 1, 3}, keep));
  write("valid.npy", npy<std::int32_t>(NpyType::i4, {4}, {3, 2, 1, 3}));
  const auto masked = [&](const std::string& mask) {
    return host_run("softmax",
                    {"--input", "x=" + path("x.npy"), "--input", "mask=" + path(mask), "--input",
                     "valid_cols=" + path("valid.npy"), "--output", "y=" + path("y.npy"), "--mask", "keep", "--mask-inner",
                     "1", "--mask-middle", "2", "--mask-outer-stride", "3", "--valid-cols", "--safe=1"});
  };
  EXPECT_EQ(run_json(masked("u1.npy"))["problem"]["rows"], 4);
  const std::vector<float> y = floats_in(read("y.npy"));
  EXPECT_EQ(y, (std::vector<float>{0.5f, 0, 0.5f, 1, 0, 0, 0, 0, 0, 0, 0.5f, 0.5f}));

  // NumPy's booleans are a byte each, and dimensions of length 1 make no difference.
  std::string booleans = npy(NpyType::u1, {2, 3}, keep);
  booleans.replace(booleans.find("|u1"), 3, "|b1");
  write("b1.npy", booleans);
  run_json(masked("b1.npy"));
  EXPECT_EQ(floats_in(read("y.npy")), y);
}

TEST_F(CliTest, AnAddedMaskFromAFile) {
  write("x.npy", npy<float>(NpyType::f4, {2, 3}, {0, 0, 0, 2, 0, 0}));
  write("mask.npy", npy<float>(NpyType::f4, {3}, {1, 0, -INFINITY}));
  run_json(host_run("log_softmax", {"--input", "x=" + path("x.npy"), "--input", "mask=" + path("mask.npy"), "--output",
                                    "y=" + path("y.npy"), "--option", "mask=add", "--option", "mask_row_stride=0",
                                    "--option", "scale=0.5"}));
  const std::vector<float> y = floats_in(read("y.npy"));
  ASSERT_EQ(y.size(), 6u);
  const double sums[] = {std::exp(1) + 1, std::exp(2) + 1};
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_NEAR(y[3 * r], 1.0 + static_cast<double>(r) - std::log(sums[r]), 1e-6);
    EXPECT_NEAR(y[3 * r + 1], -std::log(sums[r]), 1e-6);
    EXPECT_EQ(y[3 * r + 2], -INFINITY);
  }
}

TEST_F(CliTest, AGradientFromFiles) {
  write("dy.npy", npy<float>(NpyType::f4, {2, 2}, {1, 0, 0, 4}));
  write("y.npy", npy<float>(NpyType::f4, {2, 2}, {0.5f, 0.5f, 0.25f, 0.75f}));
  const nlohmann::json report =
      run_json(host_run("softmax_backward", {"--input", "dy=" + path("dy.npy"), "--input", "y=" + path("y.npy"), "--output",
                                             "dx=" + path("dx.npy")}));
  EXPECT_EQ(report["problem"]["rows"], 2);
  EXPECT_EQ(report["problem"]["cols"], 2);
  EXPECT_EQ(floats_in(read("dx.npy")), (std::vector<float>{0.25f, -0.25f, -0.75f, 0.75f}));

  // One of two arrays: the shape follows from it, the other is random. Lengths are 1-D, and no row without a dimension.
  write("valid.npy", npy<std::int32_t>(NpyType::i4, {1}, {2}));
  write("row.npy", npy<float>(NpyType::f4, {1, 3}, {0.5f, 0.25f, 0.25f}));
  const nlohmann::json one =
      run_json(host_run("softmax_backward", {"--input", "y=" + path("row.npy"), "--input", "valid_cols=" + path("valid.npy"),
                                             "--option", "valid_cols=1", "--output", "dx=" + path("one.npy")}));
  EXPECT_EQ(one["problem"]["rows"], 1);
  EXPECT_EQ(one["problem"]["cols"], 3);
  EXPECT_NE(read("one.npy").find("'shape': (1, 3)"), std::string::npos);
  EXPECT_EQ(floats_in(read("one.npy"))[2], 0);
}

TEST_F(CliTest, FilesThatDoNotFitTheOptionsAreRejected) {
  write("x.npy", npy<float>(NpyType::f4, {4, 3}, std::vector<float>(12)));
  write("y.npy", npy<float>(NpyType::f4, {3, 4}, std::vector<float>(12)));
  write("keep.npy", npy<std::uint8_t>(NpyType::u1, {4, 3}, std::vector<std::uint8_t>(12)));
  write("i8.npy", npy<std::int64_t>(NpyType::i8, {4}, {1, 2, 3, 3}));
  const std::vector<std::string> before = files();
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = host_run("softmax", {"--input", "x=" + path("x.npy")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_rejected(with({"--input", "mask=" + path("keep.npy")}),
                  {"--input names the array 'mask'", "allowed: x; 'mask' comes with --mask"});
  expect_rejected(with({"--input", "mask=" + path("keep.npy"), "--option", "mask=add"}),
                  {"mask from '" + path("keep.npy"), "4 x 3 of '|u1'", "the problem takes 4 x 3 of '<f4' (f32)"});
  expect_rejected(with({"--input", "mask=" + path("keep.npy"), "--option", "mask=keep", "--option", "mask_inner=2"}),
                  {"4 x 3 of '|u1'", "the problem takes 1 x 1 x 2 x 3"});
  expect_rejected(with({"--input", "mask=" + path("keep.npy"), "--option", "mask=kep"}),
                  {"mask is 'kep'", "none, add, keep"});
  expect_rejected(with({"--input", "valid_cols=" + path("i8.npy"), "--option", "valid_cols=1"}),
                  {"valid_cols from '" + path("i8.npy"), "4 of '<i8'", "4 of '<i4' (i32)"});
  expect_rejected(host_run("softmax_backward", {"--input", "dy=" + path("x.npy"), "--input", "y=" + path("y.npy")}),
                  {"rows is 4", "y from '" + path("y.npy"), "3 x 4"});
  expect_rejected(host_run("softmax_backward", {"--input", "x=" + path("x.npy")}), {"'x'", "allowed: dy, y"});
  expect_rejected(host_run("softmax", {"--input", "mask=" + path("keep.npy"), "--option", "mask=keep"}),
                  {"rows is missing"});
  EXPECT_EQ(files(), before);
}

TEST_F(CliTest, TheCopyTakesOneArrayOrTwo) {
  write("a.npy", npy<float>(NpyType::f4, {3}, {1, 2, 3}));
  write("b.npy", npy<float>(NpyType::f4, {3}, {10, 20, 30}));
  const nlohmann::json report = run_json(host_run("copy", {"--inputs", "2", "--input", "a=" + path("a.npy"), "--input",
                                                           "b=" + path("b.npy"), "--output", "y=" + path("y.npy")}));
  EXPECT_EQ(report["problem"]["elements"], 3);
  EXPECT_EQ(floats_in(read("y.npy")), (std::vector<float>{11, 22, 33}));
  expect_rejected(host_run("copy", {"--input", "a=" + path("a.npy"), "--input", "b=" + path("b.npy")}),
                  {"--input names the array 'b'", "allowed: a"});
}

TEST_F(CliTest, SourceTakesOptions) {
  const Outcome outcome =
      run({"source", "softmax", "--rows", "4", "--cols", "64", "--arch", "sm_90a", "--causal", "--scale", "0.125"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(".causal = true"), std::string::npos);
  EXPECT_NE(outcome.out.find(".scaled = true"), std::string::npos);
}

}  // namespace
}  // namespace tunesmith::cli
