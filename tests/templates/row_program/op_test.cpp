// The description of row_program: normal form, errors, arrays, keys, parameters, one-shot calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "templates/render.h"
#include "templates/strided/config.h"
#include "tests/api/engine/host_options.h"
#include "tests/templates/row_program/op_cases.h"
#include "tunesmith/error.h"
#include "tunesmith/row_program.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

const std::string& norm() { return test::row_program_text("rms_norm"); }

ParsedProblemPtr parsed(const std::string& text, const std::string& fields) {
  return find_op("row_program").parse(test::row_program_problem(text, fields));
}

void expect_error(const std::string& text, const std::string& fields, std::initializer_list<const char*> parts) {
  try {
    ADD_FAILURE() << fields << " was accepted as " << test::row_program_problem(text, "rows=6,cols=64" + fields).text();
  } catch (const Error& error) {
    for (const char* part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << fields << ": " << error.what();
  }
}

TEST(RowProgramDescription, FillsInDefaultsOnce) {
  const Problem plain = test::row_program_problem(norm(), "rows=3,cols=64");
  EXPECT_EQ(plain, find_op("row_program").normalize(plain));
  for (const char* same : {"numbers=eps=1e-6", "row_strides=y=64;x=64", "alignments=w=16;x=32"})
    EXPECT_EQ(test::row_program_problem(norm(), std::string("rows=3,cols=64,") + same), plain) << same;
  EXPECT_EQ(test::row_program_problem(norm(), "rows=3,cols=64,row_strides=y=72;x=80").fields.string("row_strides"),
            "x=80;y=72");
  EXPECT_EQ(test::row_program_problem(norm(), "rows=3,cols=64,numbers=eps=0.5").fields.string("numbers"), "eps=0.5");
}

TEST(RowProgramDescription, TypedProblemsHaveTheSameFields) {
  RowProgramProblem problem;
  problem.program = norm();
  problem.rows = 3;
  problem.cols = 64;
  problem.dtype = DType::bf16;
  problem.numbers = {{"eps", 0.25}};
  problem.in_place = {{"y", "x"}};
  problem.alignments = {{"w", 4}};
  EXPECT_EQ(find_op("row_program").normalize(to_problem(problem)),
            test::row_program_problem(norm(), "rows=3,cols=64,dtype=bf16,numbers=eps=0.25,in_place=y=x,alignments=w=4"));
}

TEST(RowProgramDescription, ErrorsNameFieldValueAndAllowedValues) {
  expect_error("", "", {"no output"});
  expect_error("in x : float[row, col]\nout y : float[row, col] = z\n", "", {"program:2", "z", "^"});
  expect_error("in x : float[row, col]\nout y : float[row, col] = x \x1B[31m\n", "",
               {"program:2:29: a control character of code 27"});
  expect_error(norm(), ",numbers=eta=1", {"eta", "eps"});
  expect_error(norm(), ",numbers=eps=one", {"eps", "one", "number"});
  expect_error("in x : float[row, col]\nnum s : i32\nout y : float[row, col] = x * s\n", "", {"numbers has no s"});
  expect_error("in x : float[row, col]\nnum s : i32\nout y : float[row, col] = x * s\n", ",numbers=s=0.5",
               {"s is 0.5", "integers"});
  expect_error(norm(), ",row_strides=x=63", {"x=63", "0, or at least 64"});
  expect_error(norm(), ",row_strides=x=99999999999999999999", {"x='99999999999999999999'", "an integer that fits 64 bits"});
  expect_error(norm(), ",row_strides=w=64", {"w", "not an array [row, col]"});
  expect_error(norm(), ",alignments=x=3", {"x=3", "power of two from 4"});
  expect_error(norm(), ",in_place=x=y", {"x=y", "an output [row, col] and an input"});
  expect_error(norm(), ",in_place=y=x,row_strides=x=72", {"72", "64", "both must agree"});
  expect_error("in x : float[row, col]\nmax[64] m = x\nout y : float[row, col] = x - m\n", ",row_strides=x=65",
               {"groups have 64 columns", "vectors of 1"});
  expect_error("in x : float[row, col]\nmax[128] m = x\nout y : float[row, col] = x - m\n", "",
               {"cols is 64", "multiples of 128"});
  expect_error("in x : float[row, col]\ncolsum_of = x\nout y : f32[row] = 1\n", "", {"program:"});
}

// Programs of the language that kernels do not compute yet; the errors show the place, too.
TEST(RowProgramDescription, WhatKernelsDoNotComputeIsAnErrorWithItsPlace) {
  const std::string x = "in x : float[row, col]\n", y = "\nout y : float[row, col] = x\n";
  expect_error(x + "in s : f32[row, col/32]\nout t : f32[row, col/32] = s * 2" + y, "",
               {"program:3:5: the output 't' follows from inputs alone", "^"});
  expect_error(x + "max[32] a = x\nsum t = a\nout s : f32[row] = t" + y, "",
               {"program:3:1: a reduction over values [row, col/N]", "^"});
}

TEST(RowProgramDescription, AnInnerDimensionHasLimits) {
  expect_error(norm(), ",inner=0", {"inner is 0"});
  expect_error("in x : float[row, col]\nmax[32] m = x\nout y : float[row, col] = x - m\n", ",inner=4",
               {"inner is 4", "groups of columns"});
  expect_error("in x : float[row, col]\ntopk[4] v = x\nout y : f32[row, 4] = v\n", ",inner=4,row_strides=y=8",
               {"row_strides has y", "inner is 4"});
  try {
    test::row_program_problem("in x : float[row, col]\ntopk[32] v = x\nout y : f32[row, 32] = v\n", "rows=6,cols=31");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cols is 31; allowed: at least 32"), std::string::npos) << error.what();
  }
  const ParsedProblemPtr parsed = find_op("row_program").parse(test::row_program_problem(norm(), "rows=6,cols=64,inner=5"));
  const std::vector<ArrayInfo> arrays = parsed->arrays();
  EXPECT_EQ(arrays.front().shape, (std::vector<std::int64_t>{6, 64, 5}));
  EXPECT_EQ(arrays.front().strides, (std::vector<std::int64_t>{320, 5, 1}));
  for (const Config& config : parsed->search_space(generic_device(parse_arch("sm_90a")), Effort::full))
    EXPECT_EQ(parsed->why_invalid(generic_device(parse_arch("sm_90a")), config), "");
}

TEST(RowProgramDescription, StridesOfColumnsAndPositions) {
  const auto arrays = [](const std::string& fields) { return parsed(norm(), fields)->arrays(); };
  using Numbers = std::vector<std::int64_t>;
  std::vector<ArrayInfo> some = arrays("rows=6,cols=64,inner=5,col_strides=x=1,inner_strides=x=64,row_strides=y=1000");
  EXPECT_EQ(some[0].shape, (Numbers{6, 64, 5}));
  EXPECT_EQ(some[0].strides, (Numbers{320, 1, 64}));
  // A transposed matrix.
  some = arrays("rows=6,cols=64,row_strides=x=1,col_strides=x=6");
  EXPECT_EQ(some[0].shape, (Numbers{6, 64}));
  EXPECT_EQ(some[0].strides, (Numbers{1, 6}));
  EXPECT_EQ(some.back().strides, (Numbers{64, 1}));
  EXPECT_EQ(some[0].extent_bytes(), 6 * 64 * 4);
  // Strides of contiguous arrays leave the problem as it is.
  EXPECT_EQ(test::row_program_problem(norm(), "rows=6,cols=64,inner=5,col_strides=x=5,inner_strides=y=1,row_strides=y=320"),
            test::row_program_problem(norm(), "rows=6,cols=64,inner=5"));
  EXPECT_EQ(test::row_program_problem(norm(), "rows=6,cols=64,col_strides=x=1;y=1,inner_strides=y=7"),
            test::row_program_problem(norm(), "rows=6,cols=64"));
  RowProgramProblem typed;
  typed.program = norm();
  typed.rows = 6;
  typed.cols = 64;
  EXPECT_FALSE(typed.strided());
  typed.col_strides = {{"x", 6}};
  typed.row_strides = {{"x", 1}};
  EXPECT_TRUE(typed.strided());
  EXPECT_EQ(find_op("row_program").normalize(to_problem(typed)),
            test::row_program_problem(norm(), "rows=6,cols=64,row_strides=x=1,col_strides=x=6"));
}

TEST(RowProgramDescription, StridesThatAreRejected) {
  expect_error(norm(), ",col_strides=x=-1", {"col_strides has x=-1; allowed: 0 to 1125899906842624"});
  expect_error(norm(), ",inner=4,inner_strides=y=-2", {"inner_strides has y=-2; allowed: 0 to"});
  expect_error(norm(), ",inner=4,row_strides=x=-8", {"row_strides has x=-8; allowed: 0 to"});
  expect_error(norm(), ",inner=4,col_strides=w=2", {"col_strides has w, which is not an array [row, col]"});
  expect_error(norm(), ",inner_strides=z=2", {"inner_strides names the array 'z'; allowed: x, w, y"});
  expect_error(norm(), ",col_strides=x", {"col_strides", "'x'", "ARRAY=INTEGER"});
  expect_error(norm(), ",inner=4,row_strides=y=0", {"y is an output of 6 rows", "0, 4, 1", "share an address"});
  expect_error(norm(), ",inner=4,col_strides=y=3", {"y is an output", "256, 3, 1", "share an address"});
  expect_error(norm(), ",inner=4,inner_strides=y=0", {"y is an output", "256, 4, 0", "share an address"});
  expect_error(norm(), ",row_strides=y=1,col_strides=y=5", {"y is an output", "1, 5, 1", "share an address"});
  expect_error(norm(), ",inner=4,in_place=y=x,col_strides=x=5,row_strides=x=320",
               {"in_place has y=x", "x (f32, strides 320, 5, 1) and y (f32, strides 256, 4, 1)", "both must agree"});
  expect_error("in x : float[row, col]\nmax[32] m = x\nout y : float[row, col] = x - m\n", ",col_strides=x=2",
               {"col_strides is x=2", "groups of columns needs adjacent columns"});
  expect_error(norm(), ",col_strides=x=1125899906842624", {"x would span more than 2^56 bytes"});
}

TEST(RowProgramDescription, KeysAndDefaultsFollowWhatIsAdjacent) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const std::string fields = "rows=32,cols=256,inner=784,dtype=bf16";
  std::set<std::string> keys;
  for (const char* strides : {"", ",col_strides=x=800,row_strides=x=204800", ",col_strides=x=1,inner_strides=x=256",
                              ",col_strides=y=1,inner_strides=y=256", ",col_strides=x=1;y=1,inner_strides=x=256;y=256"})
    EXPECT_TRUE(keys.insert(parsed(norm(), fields + strides)->key().problem_class).second) << strides;
  const auto lanes = [&](const std::string& strides) {
    return strided::TypedConfig::parse(parsed(norm(), fields + strides)->default_config(device)).lanes;
  };
  EXPECT_GE(lanes(""), 8);
  EXPECT_LE(lanes(",col_strides=x=1;y=1,inner_strides=x=256;y=256"), 2);
  // Of each column of a transposed matrix, neighbouring threads read neighbouring rows.
  const auto transposed = parsed(norm(), "rows=4096,cols=256,row_strides=x=1;y=1,col_strides=x=4096;y=4096");
  EXPECT_GE(strided::TypedConfig::parse(transposed->default_config(device)).lanes, 16);
}

TEST(RowProgramDescription, VariantsWithAnInnerDimension) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto problem = [](const std::string& text, const std::string& fields) {
    return find_op("row_program").parse(test::row_program_problem(text, fields));
  };
  const auto variants = [&](const std::string& text, const std::string& fields) {
    std::set<std::string> found;
    for (const Config& config : problem(text, fields)->search_space(device, Effort::full)) found.insert(config.variant());
    return found;
  };
  EXPECT_EQ(variants(norm(), "rows=8,cols=4096,inner=64"),
            (std::set<std::string>{"cluster", "resident", "split", "two_pass"}));
  // Without reductions, blocks have nothing to exchange.
  const std::string elementwise = test::row_program_text("swiglu");
  EXPECT_EQ(variants(elementwise, "rows=8,cols=4096,inner=64"), (std::set<std::string>{"resident", "two_pass"}));
  try {
    (void)problem(elementwise, "rows=8,cols=4096,inner=64")
        ->complete_config(device, Config{parse_fields("variant=split,blocks_per_row=2", "config")});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("variant is split; allowed for a program without reductions: resident, two_pass"),
        std::string::npos)
        << error.what();
  }
  // Few positions and long columns: several blocks share the columns of each.
  const auto default_of = [&](const std::string& text, const std::string& fields) {
    return strided::TypedConfig::parse(problem(text, fields)->default_config(device));
  };
  for (const char* program : {"softmax", "layer_norm", "shipped layer_norm_gradient", "shipped topk_gate"}) {
    const auto config = default_of(test::row_program_text(program), "rows=1,cols=50257,inner=16,dtype=bf16");
    EXPECT_EQ(config.variant, strided::Variant::split) << program;
    EXPECT_GE(config.blocks_per_row, 64) << program;
    // Few columns: one block reads them, and the positions are divided into many tiles.
    const auto few = default_of(test::row_program_text(program), "rows=2,cols=21,inner=3136,dtype=bf16");
    EXPECT_EQ(few.blocks_per_row, 1) << program;
    EXPECT_LE(few.lanes, 32) << program;
  }
  EXPECT_EQ(default_of(norm(), "rows=32,cols=256,inner=3136,dtype=bf16").variant, strided::Variant::resident);
}

TEST(RowProgramDescription, ArraysAreThoseOfTheProgram) {
  std::string text;
  for (const ArrayInfo& info : parsed(test::row_program_text("add_rms_norm_e4m3"), "rows=6,cols=64,dtype=bf16")->arrays())
    text += info.name + ":" + std::string(name(info.dtype)) + (info.input ? "<" : ">") +
            std::to_string(info.extent_bytes()) + " ";
  EXPECT_EQ(text, "x:bf16<768 r:bf16<768 w:f32<256 res:bf16>768 scale:f32>24 z:e4m3>384 ");
  const Cost cost = parsed(test::row_program_text("add_rms_norm_e4m3"), "rows=6,cols=64,dtype=bf16")->cost();
  EXPECT_EQ(cost.bytes_read, 768 + 768 + 256);
  EXPECT_EQ(cost.bytes_written, 768 + 24 + 384);
}

TEST(RowProgramDescription, KeysDependOnWhatIsComputed) {
  const auto key = [](const std::string& text, const std::string& fields) {
    return parsed(text, fields)->key().problem_class;
  };
  const std::string plain = key(norm(), "rows=6,cols=64");
  std::string renamed = norm();
  for (std::size_t at = 0; (at = renamed.find("ss", at)) != std::string::npos; at += 7) renamed.replace(at, 2, "squares");
  EXPECT_EQ(key(renamed, "rows=6,cols=64"), plain);
  EXPECT_EQ(key(norm(), "rows=6,cols=64,numbers=eps=0.5"), plain);
  std::set<std::string> all{plain};
  for (const char* fields : {",dtype=bf16", ",alignments=w=4", ",in_place=y=x", ",row_strides=x=65;y=65"})
    EXPECT_TRUE(all.insert(key(norm(), std::string("rows=6,cols=64") + fields)).second) << fields;
  EXPECT_TRUE(all.insert(key(test::row_program_text("softmax"), "rows=6,cols=64")).second);
}

TEST(RowProgramDescription, AddressesGiveAlignmentsAndArraysInPlace) {
  alignas(16) std::array<std::byte, 64> memory{};
  RowProgramProblem problem;
  problem.program = norm();
  problem.rows = 1;
  problem.cols = 8;
  RowProgramArrays arrays;
  arrays.inputs = {memory.data(), memory.data() + 4};
  arrays.outputs = {memory.data()};
  adopt(problem, arrays);
  EXPECT_EQ(problem.in_place, (std::vector<RowProgramInPlace>{{"y", "x"}}));
  EXPECT_EQ(*find_property(problem.alignments, "w"), 4);
  EXPECT_EQ(*find_property(problem.alignments, "x"), 16);
  arrays.outputs[1] = memory.data();
  EXPECT_THROW(adopt(problem, arrays), Error);
}

TEST(RowProgramEngine, RunsInOneCallAndAsAPlan) {
  Engine engine(test::host_engine_options());
  constexpr std::int64_t rows = 3, cols = 64;
  RowProgramProblem problem;
  problem.program = "in x : f32[row, col]\nnum scale : f32 = 2\nsum s = x\nout y : f32[row, col] = x * scale + s\n";
  problem.rows = rows;
  problem.cols = cols;
  std::vector<float> memory(rows * cols + 1), y(rows * cols, -1);
  const std::span<float> x(memory.data() + 1, rows * cols);  // not aligned to 16 bytes
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  const auto expect = [&](float scale) {
    for (std::size_t r = 0; r < rows; ++r) {
      float sum = 0;
      for (std::size_t c = 0; c < cols; ++c) sum += x[r * cols + c];
      for (std::size_t c = 0; c < cols; ++c) EXPECT_EQ(y[r * cols + c], x[r * cols + c] * scale + sum);
    }
  };
  RowProgramArrays arrays;
  arrays.inputs[0] = x.data();
  arrays.outputs[0] = y.data();
  engine.run(problem, arrays);
  expect(2);
  problem.numbers = {{"scale", 3}};
  problem.alignments = {{"x", 4}};
  const Plan plan = engine.prepare(problem);
  plan.launch(std::array<void*, 2>{x.data(), y.data()});
  expect(3);
}

// The sums over rows and positions that a gradient of weights is made of.
TEST(RowProgramEngine, CallsWithStrides) {
  Engine engine(test::host_engine_options());
  constexpr std::int64_t rows = 3, cols = 5;
  RowProgramProblem problem;
  problem.program = "in x : f32[row, col]\nmax m = x\nout y : f32[row, col] = x - m\n";
  problem.rows = rows;
  problem.cols = cols;
  std::vector<float> x(rows * cols + 1), y(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 16);
  RowProgramArrays arrays;
  arrays.inputs[0] = x.data() + 1;  // not aligned to 16 bytes
  arrays.outputs[0] = y.data();
  for (const bool transposed : {true, false, true}) {
    problem.row_strides.clear();
    problem.col_strides.clear();
    if (transposed) {
      problem.row_strides = {{"x", 1}};
      problem.col_strides = {{"x", rows}};
    }
    engine.run(problem, arrays);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto at = [&](std::size_t c) { return x[1 + (transposed ? c * rows + r : r * cols + c)]; };
      float largest = at(0);
      for (std::size_t c = 1; c < cols; ++c) largest = std::max(largest, at(c));
      for (std::size_t c = 0; c < cols; ++c) EXPECT_EQ(y[r * cols + c], at(c) - largest) << transposed;
    }
  }
}

TEST(RowProgramEngine, GradientOfANormOverChannels) {
  Engine engine(test::host_engine_options());
  constexpr std::int64_t rows = 2, cols = 5, inner = 12;
  RowProgramProblem problem;
  problem.program = RowProgramText::shipped("layer_norm").gradient();
  problem.rows = rows;
  problem.cols = cols;
  problem.inner = inner;
  std::vector<float> x(rows * cols * inner), w(cols, 2), dy(x.size()), dx(x.size()), dw(cols), db(cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 7 % 13);
    dy[i] = static_cast<float>(i * 5 % 11) - 5;
  }
  RowProgramArrays arrays;
  arrays.inputs = {x.data(), w.data(), dy.data()};
  arrays.outputs = {dx.data(), dw.data(), db.data()};
  engine.run(problem, arrays);
  std::array<double, cols> of_w{}, of_b{};
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t position = 0; position < inner; ++position) {
      const auto at = [&](std::int64_t col) { return static_cast<std::size_t>((row * cols + col) * inner + position); };
      double mean = 0, variance = 0;
      for (std::int64_t col = 0; col < cols; ++col) mean += x[at(col)] / double{cols};
      for (std::int64_t col = 0; col < cols; ++col) variance += (x[at(col)] - mean) * (x[at(col)] - mean) / double{cols};
      for (std::size_t col = 0; col < of_w.size(); ++col) {
        const std::size_t element = at(static_cast<std::int64_t>(col));
        of_w[col] += dy[element] * (x[element] - mean) / std::sqrt(variance + 1e-5);
        of_b[col] += dy[element];
      }
    }
  for (std::size_t col = 0; col < of_w.size(); ++col) {
    EXPECT_NEAR(dw[col], of_w[col], 1e-4);  // 24 terms of at most 10
    EXPECT_EQ(db[col], of_b[col]);
  }
}

/// Returns whether the check accepts an i32 that is `error` off beyond 2^24, and a boolean with this byte in place of 1.
bool accepts_exact(std::int32_t error, unsigned char yes) {
  const Problem problem = test::row_program_problem(
      "in i : i32[row, col]\nin m : bool[row, col]\nout j : i32[row, col] = i\nout n : bool[row, col] = m || i < 0\n",
      "rows=9,cols=40");
  const ParsedProblemPtr parsed = find_op("row_program").parse(problem);
  const std::vector<ArrayInfo> infos = parsed->arrays();
  std::vector<std::int32_t> i(9 * 40), j;
  std::vector<unsigned char> m(i.size()), n(i.size());
  std::vector<HostArray> arrays{{infos[0], reinterpret_cast<std::byte*>(i.data())},
                                {infos[1], reinterpret_cast<std::byte*>(m.data())},
                                {infos[2], nullptr},
                                {infos[3], reinterpret_cast<std::byte*>(n.data())}};
  parsed->fill_inputs(5, InputKind::edge_cases, arrays);
  EXPECT_EQ(i[3 * 40] / 4, (1 << 24) / 4);  // a row beyond the integers of f32
  EXPECT_LT(std::ranges::min(i), -0x7fff0000);
  m[50] = 200;  // true
  for (std::size_t at = 0; at < i.size(); ++at) n[at] = m[at] != 0 || i[at] < 0 ? yes : 0;
  j = i;
  j[3 * 40 + 7] += error;
  arrays[2].data = reinterpret_cast<std::byte*>(j.data());
  return parsed->check(arrays, 9).passed;
}

TEST(RowProgramDescription, IntegersAndBooleansAreComparedExactly) {
  EXPECT_TRUE(accepts_exact(0, 1));
  EXPECT_FALSE(accepts_exact(1, 1));
  EXPECT_FALSE(accepts_exact(-1, 1));
  EXPECT_FALSE(accepts_exact(0, 255));  // such as the bytes of an output that is not written
}

}  // namespace
}  // namespace tunesmith
