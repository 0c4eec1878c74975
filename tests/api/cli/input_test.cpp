// Arrays from files: shapes and dtypes that follow from them, and files that do not fit.

#include <cmath>

#include "api/cli/input/npy_header.h"
#include "tests/api/cli/arrays.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

std::string npy(NpyType type, const std::vector<std::int64_t>& shape, const std::string& data) {
  return npy_header_text({type, shape}) + data;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST_F(CliTest, ShapeAndDtypeFollowFromTheFile) {
  write("x.npy", npy(NpyType::f4, {2, 3}, bytes_of({0, 0, 0, 1, 2, 3})));
  const nlohmann::json report =
      run_json({"run", "softmax", "--device", "host", "--input", "x=" + path("x.npy"), "--output", "y=" + path("y.npy")});
  EXPECT_EQ(report["problem"]["rows"], 2);
  EXPECT_EQ(report["problem"]["cols"], 3);
  EXPECT_EQ(report["problem"]["dtype"], "f32");
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["outputs"]["y"], path("y.npy"));
  const std::string written = read("y.npy");
  EXPECT_NE(written.find("'shape': (2, 3)"), std::string::npos);
  const std::vector<float> y = floats_in(written);
  ASSERT_EQ(y.size(), 6u);
  const double sum = std::exp(1) + std::exp(2) + std::exp(3);
  const double expected[] = {1. / 3, 1. / 3, 1. / 3, std::exp(1) / sum, std::exp(2) / sum, std::exp(3) / sum};
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;

  // The same numbers as one row, into rows that lie apart: the gaps are no part of the file.
  write("row.npy", npy(NpyType::f4, {3}, bytes_of({1, 2, 3})));
  const nlohmann::json row = run_json({"run", "softmax", "--device", "host", "--input", "x=" + path("row.npy"), "--output",
                                       "y=" + path("z.npy"), "--x-row-stride", "5", "--y-row-stride", "4"});
  EXPECT_EQ(row["problem"]["rows"], 1);
  EXPECT_NE(read("z.npy").find("'shape': (3,)"), std::string::npos);
  const std::vector<float> z = floats_in(read("z.npy"));
  ASSERT_EQ(z.size(), 3u);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(z[i], expected[3 + i], 1e-6) << i;
  EXPECT_EQ(files(), (std::vector<std::string>{"cache.db", "row.npy", "x.npy", "y.npy", "z.npy"}));
}

TEST_F(CliTest, FilesMayBePipes) {
  write("x.npy", npy(NpyType::f4, {2, 3}, bytes_of({0, 0, 0, 1, 2, 3})));
  write("long.npy", npy(NpyType::f4, {2, 3}, bytes_of({0, 0, 0, 1, 2, 3, 4})));
  write("short.npy", npy(NpyType::f4, {2, 3}, bytes_of({0, 0, 0, 1, 2})));
  const std::string tool = program;
  program = "/bin/sh";
  const auto piped = [&](const std::string& file, const std::string& arguments) {
    return run({"-c", "cat '" + path(file) + "' | '" + tool + "' " + arguments});
  };
  const std::string softmax = "run softmax --device host --mode off --input x=";
  for (const char* name : {"-", "/dev/stdin"}) {
    const Outcome outcome = piped("x.npy", softmax + name + " --output y='" + path("y.npy") + "'");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(floats_in(read("y.npy")).size(), 6u);
  }
  EXPECT_NE(piped("long.npy", softmax + "-").err.find("is longer than its shape"), std::string::npos);
  EXPECT_NE(piped("short.npy", softmax + "-").err.find("is truncated"), std::string::npos);

  write("spec.json", R"({"problems": [{"op": "softmax", "rows": 8, "cols": 64}]})");
  const Outcome spec = piped("spec.json", "prewarm --spec - --compile-only --device host --json");
  EXPECT_EQ(spec.err.find("--spec"), std::string::npos) << spec.err;
  write("mod.cu",
        "\xEF\xBB\xBF// aux: gain:f32=2\n__device__ float score_mod(float score, int b, int h, int q, int k, const "
        "Aux& aux) { return score * aux.gain; }\n");
  const std::string attention = "run attention --device host --mode off --seq-q 8 --head-dim 16 --score-mod ";
  for (const std::string& name : {std::string("-"), "'" + path("mod.cu") + "'"}) {
    const Outcome outcome = piped("mod.cu", attention + name);
    EXPECT_EQ(outcome.code, 0) << outcome.err;  // without its byte-order mark
  }
}

TEST_F(CliTest, SixteenBitFilesBothWays) {
  const std::string ones("\x00\x3c\x00\x3c\x00\x3c\x00\x3c", 8);  // f16: 1, 1, 1, 1
  write("x.npy", npy(NpyType::f2, {1, 4}, ones));
  run_json({"run", "softmax", "--device", "host", "--input", "x=" + path("x.npy"), "--output", "y=" + path("y.npy")});
  EXPECT_EQ(read("y.npy"), npy(NpyType::f2, {1, 4}, std::string("\x00\x34\x00\x34\x00\x34\x00\x34", 8)));  // 0.25

  const std::string bits("\x80\x3f\x80\x3f\x80\x3f\x80\x3f", 8);  // bf16: 1, 1, 1, 1
  write("b.npy", npy(NpyType::u2, {1, 4}, bits));
  run_json({"run", "softmax", "--device", "host", "--dtype", "bf16", "--input", "x=" + path("b.npy"), "--output",
            "y=" + path("c.npy")});
  EXPECT_EQ(read("c.npy"), npy(NpyType::u2, {1, 4}, std::string("\x80\x3e\x80\x3e\x80\x3e\x80\x3e", 8)));
}

TEST_F(CliTest, Float64FilesBothWays) {
  const std::string one("\0\0\0\0\0\0\xf0\x3f", 8), quarter("\0\0\0\0\0\0\xd0\x3f", 8);
  write("x.npy", npy(NpyType::f8, {1, 4}, one + one + one + one));
  const nlohmann::json report =
      run_json({"run", "softmax", "--device", "host", "--input", "x=" + path("x.npy"), "--output", "y=" + path("y.npy")});
  EXPECT_EQ(report["problem"]["dtype"], "f64");
  EXPECT_EQ(read("y.npy"), npy(NpyType::f8, {1, 4}, quarter + quarter + quarter + quarter));
}

TEST_F(CliTest, FilesThatDoNotFitAreRejected) {
  const auto with = [this](const std::string& file, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"run", "softmax", "--device", "host", "--input", "x=" + path(file)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  write("x.npy", npy(NpyType::f4, {2, 3}, std::string(24, '\0')));
  write("u2.npy", npy(NpyType::u2, {2, 3}, std::string(12, '\0')));
  write("i8.npy", npy(NpyType::i8, {2, 3}, std::string(48, '\0')));
  write("3d.npy", npy(NpyType::f4, {1, 2, 3}, std::string(24, '\0')));
  write("0d.npy", npy(NpyType::f4, {}, std::string(4, '\0')));
  write("short.npy", npy(NpyType::f4, {2, 3}, std::string(20, '\0')));
  write("text.npy", "rows,cols\n1,2\n");
  write("empty.npy", npy(NpyType::f4, {2, 0}, ""));
  std::string fortran = npy(NpyType::f4, {2, 3}, std::string(24, '\0'));
  fortran.replace(fortran.find("False"), 5, "True ");
  write("fortran.npy", fortran);
  const std::vector<std::string> before = files();

  expect_rejected(with("none.npy"), {path("none.npy"), "does not exist"}, 1);
  expect_rejected(with("text.npy"), {path("text.npy"), "not a .npy file"}, 1);
  expect_rejected(with("short.npy"), {path("short.npy"), "truncated", "24 bytes", "has 20"}, 1);
  expect_rejected(with("fortran.npy"), {path("fortran.npy"), "Fortran-ordered", "C order"}, 1);
  expect_rejected(with("3d.npy"), {path("3d.npy"), "3 dimensions", "1 x 2 x 3", "rows x cols"});
  expect_rejected(with("0d.npy"), {path("0d.npy"), "0 dimensions"});
  expect_rejected(with("i8.npy"), {path("i8.npy"), "'<i8'", "f32 takes '<f4'"});
  expect_rejected(with("u2.npy"), {path("u2.npy"), "'<u2'", "--dtype bf16"});
  expect_rejected(with("u2.npy", {"--dtype", "f16"}), {"dtype is f16", path("u2.npy"), "'<u2'"});
  expect_rejected(with("x.npy", {"--dtype", "bf16"}), {"dtype is bf16", path("x.npy"), "'<f4'"});
  expect_rejected(with("x.npy", {"--rows", "3"}), {"rows is 3", path("x.npy"), "2 x 3", "--rows"});
  expect_rejected(with("x.npy", {"--cols", "4"}), {"cols is 4", path("x.npy")});
  expect_rejected({"run", "row_quantize", "--device", "host", "--input", "x=" + path("empty.npy")}, {"cols is 0"});
  expect_rejected({"run", "softmax", "--device", "host", "--input", "z=" + path("x.npy")}, {"'z'", "allowed: x"});
  expect_rejected({"run", "softmax", "--device", "host", "--input", "y=" + path("x.npy")}, {"'y'", "allowed: x"});
  expect_rejected({"run", "softmax", "--device", "host", "--input", path("x.npy")}, {"--input", "NAME=FILE.npy"});
  expect_rejected(with("x.npy", {"--output", "x=" + path("o.npy")}), {"--output", "'x'", "allowed: y"});
  expect_rejected(with("x.npy", {"--output", "y=" + path("none/o.npy")}), {path("none/o.npy"), "no folder"}, 1);
  expect_rejected(with("x.npy", {"--output", "y=" + folder_.string()}), {"is a folder"}, 1);
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace tunesmith::cli
