// tunesmith run, source and tune row_program, its program from a file or by a shipped name, and tunesmith row-gradient.

#include "tests/api/cli/arrays.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

TEST_F(CliTest, RowProgramRunsFromAFile) {
  const std::string text = write("shift.row",
                                 "in x : float[row, col]\n"
                                 "num by : f32 = 1\n"
                                 "max largest = x\n"
                                 "out y : float[row, col] = x - largest + by\n");
  write("x.npy", npy<float>(NpyType::f4, {2, 3}, {1, 5, 3, -2, -8, -4}));
  const nlohmann::json result = run_json({"run", "row_program", "--device", "host", "--program", text, "--numbers", "by=10",
                                          "--input", "x=" + path("x.npy"), "--output", "y=" + path("y.npy")});
  EXPECT_EQ(result["verified"], true);
  EXPECT_EQ(floats_in(read("y.npy")), (std::vector<float>{6, 10, 8, 10, 4, 8}));
}

// A file of doubles makes `float` f64.
TEST_F(CliTest, RowProgramsOfDoublesComputeInF64) {
  const std::string text = write("third.row",
                                 "in x : float[row, col]\n"
                                 "num by : f32 = 0.1\n"
                                 "out y : float[row, col] = x / 3 + by\n");
  write("x.npy", npy<double>(NpyType::f8, {1, 2}, {1, 1e300}));
  const nlohmann::json result = run_json({"run", "row_program", "--device", "host", "--program", text, "--input",
                                          "x=" + path("x.npy"), "--output", "y=" + path("y.npy")});
  EXPECT_EQ(result["verified"], true);
  EXPECT_EQ(result["problem"]["dtype"], "f64");
  const std::vector<double> y = values_in<double>(read("y.npy"));
  ASSERT_EQ(y.size(), 2U);
  EXPECT_NEAR(y[0], 1.0 / 3 + 0.1, 2e-16);
  EXPECT_NEAR(y[1] / 1e300, 1.0 / 3, 1e-16);
}

TEST_F(CliTest, RowProgramsOfIntegersAndBooleans) {
  const std::string text = write("masked.row",
                                 "in i : i32[row, col]\n"
                                 "in m : bool[row, col]\n"
                                 "out j : i32[row, col] = select(m, i, 0)\n"
                                 "out n : bool[row, col] = !m && i > 16777216\n");
  write("i.npy", npy<std::int32_t>(NpyType::i4, {2, 2}, {16777217, 2147483647, -2147483647, 16777217}));
  write("m.npy", npy<unsigned char>(NpyType::u1, {2, 2}, {1, 1, 1, 0}));
  const nlohmann::json result =
      run_json({"run", "row_program", "--device", "host", "--program", text, "--input", "i=" + path("i.npy"), "--input",
                "m=" + path("m.npy"), "--output", "j=" + path("j.npy"), "--output", "n=" + path("n.npy")});
  EXPECT_EQ(result["verified"], true);
  EXPECT_EQ(values_in<std::int32_t>(read("j.npy")), (std::vector<std::int32_t>{16777217, 2147483647, -2147483647, 0}));
  EXPECT_EQ(values_in<unsigned char>(read("n.npy")), (std::vector<unsigned char>{0, 0, 0, 1}));
}

// A file has the logical order of an array, whatever its strides in memory.
TEST_F(CliTest, FilesOfArraysOfAnyStrides) {
  const std::string text = write("add.row",
                                 "in x, r : float[row, col]\n"
                                 "sum s = r\n"
                                 "out y : float[row, col] = x + s\n");
  write("x.npy", npy<float>(NpyType::f4, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  write("r.npy", npy<float>(NpyType::f4, {2, 3, 2}, {0, 100, 0, 200, 10, 0, 20, 0, 0, 300, 0, 400}));
  const nlohmann::json result = run_json({"run",
                                          "row_program",
                                          "--device",
                                          "host",
                                          "--program",
                                          text,
                                          "--inner",
                                          "2",
                                          "--col-strides",
                                          "x=1;r=4;y=5",
                                          "--inner-strides",
                                          "x=3;r=2;y=2",
                                          "--row-strides",
                                          "r=20;y=17",
                                          "--input",
                                          "x=" + path("x.npy"),
                                          "--input",
                                          "r=" + path("r.npy"),
                                          "--output",
                                          "y=" + path("y.npy")});
  EXPECT_EQ(result["verified"], true);
  EXPECT_EQ(floats_in(read("y.npy")), (std::vector<float>{11, 302, 13, 304, 15, 306, 27, 708, 29, 710, 31, 712}));
}

TEST_F(CliTest, FilesOfATransposedMatrix) {
  write("x.npy", npy<float>(NpyType::f4, {2, 3}, {1, 5, 3, -2, -8, -4}));
  const nlohmann::json result = run_json({"run", "row_program", "--device", "host", "--program",
                                          write("max.row",
                                                "in x : float[row, col]\n"
                                                "max m = x\n"
                                                "out y : float[row, col] = x - m\n"),
                                          "--row-strides", "x=1", "--col-strides", "x=2", "--input", "x=" + path("x.npy"),
                                          "--output", "y=" + path("y.npy")});
  EXPECT_EQ(result["verified"], true);
  EXPECT_EQ(floats_in(read("y.npy")), (std::vector<float>{-4, 0, -2, 0, -6, -2}));
}

// softmax has a field for each stride.
TEST_F(CliTest, FilesOfSoftmaxWithStridesOfPositions) {
  write("x.npy", npy<float>(NpyType::f4, {1, 2, 2}, {0, 50, 0, 0}));
  const nlohmann::json result = run_json({"run",
                                          "softmax",
                                          "--device",
                                          "host",
                                          "--inner",
                                          "2",
                                          "--x-col-stride",
                                          "1",
                                          "--x-inner-stride",
                                          "2",
                                          "--y-inner-stride",
                                          "3",
                                          "--y-col-stride",
                                          "1",
                                          "--y-row-stride",
                                          "6",
                                          "--input",
                                          "x=" + path("x.npy"),
                                          "--output",
                                          "y=" + path("y.npy")});
  EXPECT_EQ(result["verified"], true);
  const std::vector<float> y = floats_in(read("y.npy"));
  ASSERT_EQ(y.size(), 4U);
  EXPECT_FLOAT_EQ(y[0], 0.5F);
  EXPECT_FLOAT_EQ(y[1], 1);
  EXPECT_FLOAT_EQ(y[2], 0.5F);
}

TEST_F(CliTest, RowProgramRunsByAShippedName) {
  const nlohmann::json result = run_json(
      {"run", "row_program", "--device", "host", "--program", "rms_norm", "--rows", "5", "--cols", "77", "--dtype", "bf16"});
  EXPECT_EQ(result["verified"], true);
}

TEST_F(CliTest, ShippedProgramsAndTheirGradientsAreOperations) {
  for (const char* op : {"layer_norm", "layer_norm_gradient", "rms_norm_gradient"}) {
    const nlohmann::json result =
        run_json({"run", op, "--device", "host", "--rows", "5", "--cols", "77", "--dtype", "bf16", "--numbers", "eps=1e-3"});
    EXPECT_EQ(result["verified"], true) << op;
  }
  const std::string report = run({"run", "layer_norm", "--device", "host", "--rows", "5", "--cols", "77"}).out;
  EXPECT_TRUE(report.starts_with("operation  layer_norm, a row_program\n")) << report;
}

// The numbers come from torch.nn.functional.cross_entropy(logits, probabilities, reduction="none", label_smoothing=0.1).
TEST_F(CliTest, SoftCrossEntropyGivesTheLossesOfPyTorch) {
  write("logits.npy", npy<float>(NpyType::f4, {2, 3}, {1, 2, 3, 0.5F, -1, 4}));
  write("probabilities.npy", npy<float>(NpyType::f4, {2, 3}, {0.5F, 0.5F, 0, 0.25F, 0.125F, 0.625F}));
  const nlohmann::json result =
      run_json({"run", "soft_cross_entropy", "--device", "host", "--numbers", "label_smoothing=0.1", "--input",
                "logits=" + path("logits.npy"), "--input", "probabilities=" + path("probabilities.npy"), "--output",
                "loss=" + path("loss.npy"), "--output", "lse_out=" + path("lse.npy")});
  EXPECT_EQ(result["verified"], true);
  const std::vector<float> loss = floats_in(read("loss.npy")), lse = floats_in(read("lse.npy"));
  EXPECT_NEAR(loss.at(0), 1.85760596, 1e-6);
  EXPECT_NEAR(loss.at(1), 1.66960290, 1e-6);
  EXPECT_NEAR(lse.at(0), 3.4076059, 1e-6);
}

TEST_F(CliTest, GradientsOfNormsOverADimensionThatIsNotTheLast) {
  for (const char* op : {"layer_norm_gradient", "rms_norm_gradient"})
    for (const char* config : {"variant=resident", "variant=two_pass", "variant=cluster", "variant=split"}) {
      const nlohmann::json result = run_json({"run", op, "--device", "host", "--rows", "3", "--cols", "37", "--inner", "40",
                                              "--dtype", "bf16", "--config", config});
      EXPECT_EQ(result["verified"], true) << op << " " << config;
    }
}

TEST_F(CliTest, ErrorsInARowProgramNameFileLineAndColumn) {
  const std::string text = write("bad.row", "in x : float[row, col]\nout y : float[row, col] = sqr(x)\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "row_program", "--program", text, "--rows", "2", "--cols", "8"},
        std::vector<std::string>{"row-gradient", text}}) {
    const Outcome outcome = run(arguments);
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ(outcome.out, "");
    for (const char* part : {"bad.row:2:27: 'sqr' is not defined", "sqrt", "\n                            ^"})
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in:\n" << outcome.err;
  }
}

TEST_F(CliTest, AProgramThatIsNeitherAFileNorShippedIsNamedWithTheNearest) {
  expect_rejected({"row-gradient", "rms_nrm"},
                  {"FILE.row: 'rms_nrm' is neither a file nor a shipped program; did you mean 'rms_norm'?"}, 1);
  expect_rejected({"run", "row_program", "--program", "layer_norm_gradeint", "--rows", "2", "--cols", "8"},
                  {"--program: 'layer_norm_gradeint' is neither", "did you mean 'layer_norm_gradient'?"}, 1);
  expect_rejected({"run", "row_program", "--program", path("none.row"), "--rows", "2", "--cols", "8"},
                  {path("none.row"), "neither a file nor a shipped program"}, 1);
}

TEST_F(CliTest, RowGradientPrintsAProgram) {
  const Outcome outcome = run({"row-gradient", "softmax"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  write("gradient.row", outcome.out);
  const nlohmann::json result =
      run_json({"run", "row_program", "--device", "host", "--program", path("gradient.row"), "--rows", "3", "--cols", "40"});
  EXPECT_EQ(result["verified"], true);
}

// `tunesmith source` takes a program from a file; tuning needs a GPU, which the error says.
TEST_F(CliTest, SourceAndTuneTakeAProgram) {
  const std::string file = write("shift.row", "in x : float[row, col]\nmean m = x\nout y : float[row, col] = x - m\n");
  const Outcome source = run({"source", "row_program", "--program", file, "--rows", "8", "--cols", "128", "--dtype", "bf16",
                              "--arch", "sm_90a", "--kernel"});
  EXPECT_EQ(source.code, 0) << source.err;
  for (const char* part : {"struct Program {", "reads x:bf16[row, col]", "algorithm", "threads"})
    EXPECT_NE(source.out.find(part), std::string::npos) << part;
  const Outcome tune = run({"tune", "row_program", "--program", file, "--rows", "8", "--cols", "128", "--device", "host"});
  EXPECT_NE(tune.code, 0);
  EXPECT_NE(tune.err.find("tuning needs a GPU"), std::string::npos) << tune.err;
}

}  // namespace
}  // namespace tunesmith::cli
