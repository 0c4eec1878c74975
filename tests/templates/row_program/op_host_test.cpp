// Row programs on the host executor: what tests/templates/rows does not draw. own_reference_host_test.cpp and
// sums_host_test.cpp have more.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "core/half.h"
#include "tests/templates/row_program/host_outputs.h"
#include "tests/templates/row_program/op_cases.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"
#include "tunesmith/row_program.h"

namespace tunesmith {
namespace {

using test::Case;
using test::row_program_cases;
using test::row_program_text;

using RowProgramHost = test::RowProgramHost;

// The results equal those for contiguous arrays, bit by bit: two inputs and two outputs, each with a layout of its own.
TEST_F(RowProgramHost, StridesDoNotChangeResults) {
  constexpr int rows = 3, cols = 21, inner = 5;
  struct Strides {
    std::int64_t row, col, position;
    std::int64_t at(std::int64_t r, std::int64_t c, std::int64_t p) const { return r * row + c * col + p * position; }
  };
  const Strides packed{cols * inner, inner, 1}, x_of{1, 15, 3}, r_of{200, 1, 30}, y_of{130, 6, 1}, z_of{21, 1, 63};
  const std::string text =
      "in x, r : f32[row, col]\nsum s = x * r\nmax m = x + row\nout y : f32[row, col] = x * s - r\n"
      "out z : f32[row, col] = r + m * col\n";
  const auto over_all = [](const auto& body) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c)
        for (int p = 0; p < inner; ++p) body(r, c, p);
  };
  const auto input = [&](const Strides& strides, float factor) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(strides.at(rows - 1, cols - 1, inner - 1) + 1) * sizeof(float));
    over_all([&](int r, int c, int p) {
      const auto k = static_cast<float>(packed.at(r, c, p));
      write_element(DType::f32, bytes.data(), strides.at(r, c, p), std::sin(k * factor));
    });
    return bytes;
  };
  const std::string fields = "rows=3,cols=21,inner=5",
                    strides = ",row_strides=x=1;r=200;y=130;z=21,col_strides=x=15;r=1;y=6;z=1,inner_strides=x=3;r=30;z=63";
  for (const char* config :
       {"variant=resident,threads=64,lanes=4", "variant=split,threads=64,lanes=2,unroll=2,blocks_per_row=2"}) {
    std::vector<std::vector<std::byte>> expected, found;
    with_executables(row_program_cases(text, fields, device_.info(), {config}),
                     [&](const Case& c, const Executable& kernel) {
                       expected = outputs_of(kernel, c, {input(packed, 1), input(packed, 0.7F)});
                     });
    with_executables(row_program_cases(text, fields + strides, device_.info(), {config}),
                     [&](const Case& c, const Executable& kernel) {
                       found = outputs_of(kernel, c, {input(x_of, 1), input(r_of, 0.7F)});
                     });
    ASSERT_EQ(found.size(), 2U);
    over_all([&](int r, int c, int p) {
      for (std::size_t k = 0; k < 2; ++k) {
        const Strides& of = k == 0 ? y_of : z_of;
        EXPECT_EQ(read_element(DType::f32, found[k].data(), of.at(r, c, p)),
                  read_element(DType::f32, expected[k].data(), packed.at(r, c, p)));
      }
    });
  }
}

// Each position is a row: the same numbers as for the transposed array, with random numbers of the same rows.
TEST_F(RowProgramHost, APositionIsARow) {
  constexpr int rows = 3, cols = 21, inner = 5;
  const std::string text =
      "in x : f32[row, col]\nnum seed : i32 = 4\nargmax i = x\nout y : f32[row, col] = x * uniform(seed, 0) + row\n"
      "out best : i32[row] = i\n";
  std::vector<float> x(rows * cols * inner), transposed(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<float>(k));
  const auto strided = [](std::int64_t r, std::int64_t c, std::int64_t p) {
    return static_cast<std::size_t>((r * cols + c) * inner + p);
  };
  const auto adjacent = [](std::int64_t r, std::int64_t c, std::int64_t p) {
    return static_cast<std::size_t>((r * inner + p) * cols + c);
  };
  const auto over_all = [](const auto& body) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c)
        for (int p = 0; p < inner; ++p) body(r, c, p);
  };
  over_all([&](int r, int c, int p) { transposed[adjacent(r, c, p)] = x[strided(r, c, p)]; });
  const auto bytes_of = [](const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  };
  std::vector<std::vector<std::byte>> expected;
  with_executables(
      row_program_cases(text, "rows=15,cols=21", device_.info(), {"variant=block"}),
      [&](const Case& c, const Executable& executable) { expected = outputs_of(executable, c, {bytes_of(transposed)}); });
  with_executables(
      row_program_cases(text, "rows=3,cols=21,inner=5", device_.info(),
                        {"variant=resident", "variant=two_pass", "variant=cluster,threads=32,lanes=2,blocks_per_row=3",
                         "variant=split,threads=64,lanes=2,unroll=2,blocks_per_row=2"}),
      [&](const Case& c, const Executable& executable) {
        const auto outputs = outputs_of(executable, c, {bytes_of(x)});
        EXPECT_EQ(outputs[1], expected[1]);
        over_all([&](int r, int col, int p) {
          EXPECT_EQ(read_element(DType::f32, outputs[0].data(), static_cast<std::int64_t>(strided(r, col, p))),
                    read_element(DType::f32, expected[0].data(), static_cast<std::int64_t>(adjacent(r, col, p))));
        });
      });
}

// Conversions to and from the element types of one byte, as the device code without hardware instructions makes them,
// against the host's: every pattern, the middle between neighbours and the numbers next to it, both signs.
TEST_F(RowProgramHost, ElementsOfOneByteConvertAsOnTheHost) {
  for (const DType dtype : {DType::e4m3, DType::e5m2, DType::i8}) {
    const std::string type(name(dtype));
    std::vector<float> values{INFINITY, -INFINITY, NAN, 1e30F, -1e30F, 0x1p-149F, 3.0e38F};
    std::vector<std::byte> patterns;
    for (unsigned bits = 0; bits < 256; ++bits) {
      patterns.push_back(static_cast<std::byte>(bits));
      const auto low = static_cast<float>(read_element(dtype, &patterns.back(), 0));
      const std::byte next = static_cast<std::byte>(bits + 1);
      const auto high = static_cast<float>(read_element(dtype, &next, 0));
      const float middle = (low + high) / 2;
      for (const float value : {low, middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)})
        values.push_back(value);
    }
    values.resize(1024 + 64, 0.3F);
    const std::string narrow = "in x : f32[row, col]\nout z : " + type + "[row, col] = x\n",
                      widen = "in x : " + type + "[row, col]\nout z : f32[row, col] = x\n";
    const auto cases =
        row_program_cases(narrow, "rows=1,cols=" + std::to_string(values.size()), device_.info(), {"variant=block"});
    const auto back = row_program_cases(widen, "rows=1,cols=256", device_.info(), {"variant=block"});
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    with_executables(cases, [&](const Case& c, const Executable& executable) {
      const auto outputs = outputs_of(executable, c, {bytes});
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::byte expected{};
        write_element(dtype, &expected, 0, values[i]);
        EXPECT_EQ(outputs[0][i], expected) << type << " of " << values[i];
      }
    });
    with_executables(back, [&](const Case& c, const Executable& executable) {
      const auto outputs = outputs_of(executable, c, {patterns});
      for (int i = 0; i < 256; ++i) {
        const double expected = read_element(dtype, patterns.data(), i),
                     found = read_element(DType::f32, outputs[0].data(), i);
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(found) : expected == found) << type << " " << i << " is " << found;
      }
    });
  }
}

// The documented accuracy of the hand-written softmax: at most 4 units in the last place.
TEST_F(RowProgramHost, SoftmaxAsAProgramIsAsAccurateAsSoftmax) {
  double largest = 0;
  std::set<std::string> variants;
  for (const auto& [fields, count] : {std::pair{"rows=19,cols=1031", 7U}, {"rows=3,cols=203,inner=12", 4U}}) {
    const std::vector<Case> cases = test::softmax_program_cases(fields, device_.info());
    EXPECT_EQ(cases.size(), count);
    with_executables(cases, [&](const Case& c, const Executable& executable) {
      variants.insert(c.config.variant());
      for (const InputKind kind : {InputKind::random, InputKind::edge_cases}) {
        const double error = test::error_of_softmax(fields, executable, device_, kind);
        EXPECT_LE(error, 4) << c.text();
        largest = std::max(largest, error);
      }
    });
  }
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "resident", "split",
                                             "two_pass", "warp"}));
  EXPECT_GT(largest, 0.3);  // the check found real rounding errors
}

// A defect of any kernel that the check must find: another operator, another identity, another column, a lost output.
TEST_F(RowProgramHost, MutatedKernelsFailVerification) {
  struct Mutation {
    const char *program, *fields, *config, *from, *to;
  };
  const Mutation mutations[] = {
      {"rms_norm", "rows=17,cols=1000", "variant=block", "x * x", "x + x"},
      {"rms_norm", "rows=17,cols=1000", "variant=block", "params.eps_number", "0.01f"},
      {"rms_norm", "rows=17,cols=1000,dtype=bf16", "variant=persistent,threads=32,stages=2,keep_columns=1",
       "v.of_column[0][j]", "v.of_column[0][0]"},
      {"shipped layer_norm_gradient", "rows=17,cols=1000", "variant=persistent,threads=64,stages=2,batch=2",
       "results[2][j] = ", "results[2][j] = 0.1f + "},
      {"rms_norm", "rows=17,cols=1000,dtype=bf16", "variant=two_pass", "v.of_column[0][j]", "v.of_column[0][0]"},
      {"softmax", "rows=17,cols=1000", "variant=warp,lanes=32", "Reductions<MaximumOfColumns>", "Reductions<SumOfColumns>"},
      {"softmax", "rows=17,cols=1000", "variant=block", "values.by_s = NormalDivisor(s)",
       "values.by_s = NormalDivisor(values.m)"},
      {"layer_norm", "rows=17,cols=1000", "variant=two_pass", "MomentsOfColumns::variance(", "MomentsOfColumns::mean("},
      {"layer_norm", "rows=17,cols=1000", "variant=cluster,threads=32,blocks_per_row=2",
       "pivot = is_finite(mean) ? mean : Number(0);", "pivot = Number(0);"},
      {"layer_norm", "rows=17,cols=1000", "variant=cluster,threads=32,blocks_per_row=2",
       "fused_multiply_add(sum, difference, partial[3])", "partial[3]"},
      {"quantize", "rows=17,cols=1000", "variant=block", "store_value<float>(params.scale_address", "// "},
      {"choices", "rows=17,cols=1000", "variant=cluster", "ArgminOfColumns,", "ArgmaxOfColumns,"},
      {"norm_blocks", "rows=17,cols=1024", "variant=block", "columns_of_group = 32", "columns_of_group = 64"},
      {"shipped rms_norm_gradient", "rows=17,cols=1000", "variant=block", "results[1][j] = dy * ", "results[1][j] = -dy * "},
      {"shipped rms_norm_gradient", "rows=17,cols=1000", "variant=block", "dw_address, column, sum",
       "dw_address, column, 0.0f"},
      {"shipped layer_norm_gradient", "rows=17,cols=1000", "variant=two_pass",
       "results[2][j] = ", "results[2][j] = 0.1f + "},
      {"top_columns", "rows=17,cols=1000", "variant=block", "::column(partial.value, rank)", "::column(partial.value, 0)"},
      {"top_scatter", "rows=17,cols=1000", "variant=two_pass", "values.i[rank] == ", "values.i[0] == "},
      {"shipped topk_gate_sigmoid", "rows=17,cols=1000", "variant=warp,lanes=32", "terms[1][j] = s",
       "terms[1][j] = terms[0][j]"},
      {"shipped topk_gate", "rows=17,cols=1000", "variant=cluster", "::value(partial.value, rank)",
       "::value(partial.value, rank / 2 * 2)"},
      {"softmax", "rows=3,cols=50,inner=12", "variant=resident", "results[0][j] = ", "results[0][j] = v.row + "},
      {"rms_norm", "rows=3,cols=50,inner=12", "variant=two_pass", "v.of_column[0][j]", "1.0f"},
      {"softmax", "rows=3,cols=50,inner=12", "variant=cluster,threads=32,lanes=2,blocks_per_row=3", "blocks_per_row = 3",
       "blocks_per_row = 2"},
      {"softmax", "rows=3,cols=50,inner=12", "variant=split,threads=32,lanes=2,blocks_per_row=3",
       "program_strided_split_sums<tunesmith::Program, shape, config, 2>",
       "program_strided_split_sums<tunesmith::Program, shape, config, 1>"},
      {"shipped layer_norm_gradient", "rows=3,cols=50,inner=12", "variant=resident",
       "results[2][j] = ", "results[2][j] = 0.1f + "},
      {"shipped layer_norm_gradient", "rows=3,cols=50,inner=12", "variant=two_pass", "dw_address, column, sum",
       "dw_address, column, 0.0f"},
      {"shipped cross_entropy", "rows=17,cols=1000", "variant=block", "return values.target;", "return 1;"},
      {"total_alone", "rows=17,cols=1000", "variant=block", "loss_address, column, sum",
       "loss_address, column, 1.001f * sum"},
      {"totals", "rows=37,cols=1000", "variant=cluster,threads=32,blocks_per_row=2", "rows_of_partial, 2>",
       "rows_of_partial, 1>"},
      // Where a sum overflows, only an infinite result, NaN and the sum itself are right.
      {"overflow", "rows=17,cols=1000", "variant=block", "SumOfColumns::result(partial.value)",
       "finite_or(SumOfColumns::result(partial.value), 1e38f)"},
      {"overflow", "rows=17,cols=1000", "variant=two_pass", "SumOfColumns::result(partial.value)",
       "finite_or(SumOfColumns::result(partial.value), 1e38f)"},
      {"overflow", "rows=17,cols=1000", "variant=two_pass", "MomentsOfColumns::mean(partial.value + 2)",
       "1.001f * MomentsOfColumns::mean(partial.value + 2)"},
  };
  for (const Mutation& mutation : mutations) {
    const Case c =
        row_program_cases(row_program_text(mutation.program), mutation.fields, device_.info(), {mutation.config}).at(0);
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    std::string source = render(*problem, c.config);
    std::size_t at = source.find(mutation.from, source.find("struct Program {"));
    if (at == std::string::npos) at = source.find(mutation.from);  // in the device code
    ASSERT_NE(at, std::string::npos) << mutation.program << ": " << mutation.from;
    source.replace(at, std::string(mutation.from).size(), mutation.to);
    source.insert(source.find("struct Program {"),
                  "__device__ inline float finite_or(float x, float y) { return x - x == 0.0f ? x : y; }\n");
    const auto modules = device_.load_all(
        compiler_.compile_many(std::vector<CompileRequest>{{"row_program.cu", source, device_.info().arch}}));
    const Executable executable(device_, modules[0], problem->launch_plan(c.config, device_.info()));
    EXPECT_FALSE(verify(*problem, executable, device_, 3).passed) << mutation.program << ": " << mutation.to;
  }
}

}  // namespace
}  // namespace tunesmith
