// The check against the float64 reference: for all four operations, it accepts a correct result and rejects a slightly wrong
// one. The correct result is computed here independently, from the definitions.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/half.h"
#include "tests/support/cases.h"

namespace tunesmith {
namespace {

using test::normalized;
using test::softmax_ops;

/// A problem with arrays in host memory and the correct result in the output.
struct Solved {
  const Op& op;
  Problem problem;
  std::vector<std::vector<std::byte>> storage;
  std::vector<HostArray> arrays;

  Solved(std::string_view name, const std::string& fields, InputKind kind = InputKind::edge_cases)
      : op(find_op(name)), problem(normalized(name, fields)) {
    for (const ArrayInfo& info : op.parse(problem)->arrays())
      storage.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
    for (std::size_t i = 0; i < storage.size(); ++i) arrays.push_back({op.parse(problem)->arrays()[i], storage[i].data()});
    op.parse(problem)->fill_inputs(7, kind, arrays);
    for (std::int64_t row = 0; row < rows(); ++row) solve(row);
  }

  bool backward() const { return problem.op.ends_with("backward"); }
  bool logarithm() const { return problem.op.starts_with("log"); }
  std::size_t output() const { return backward() ? 2 : 1; }
  std::int64_t rows() const { return problem.fields.integer("rows"); }
  std::int64_t cols() const { return problem.fields.integer("cols"); }
  std::int64_t option(const char* name, std::int64_t otherwise) const {
    return problem.fields.contains(name) ? problem.fields.integer(name) : otherwise;
  }
  double scale() const { return problem.fields.contains("scale") ? static_cast<float>(problem.fields.real("scale")) : 1; }
  std::string mask() const { return problem.fields.contains("mask") ? problem.fields.string("mask") : "none"; }
  const HostArray& array(const char* name) const {
    for (const HostArray& candidate : arrays)
      if (candidate.info.name == name) return candidate;
    throw std::out_of_range(name);
  }

  double read(std::size_t which, std::int64_t row, std::int64_t column) const {
    const ArrayInfo& info = arrays[which].info;
    return read_element(info.dtype, arrays[which].data, row * info.strides[0] + column);
  }
  void write(std::int64_t row, std::int64_t column, double value) {
    const ArrayInfo& info = arrays[output()].info;
    write_element(info.dtype, arrays[output()].data, row * info.strides[0] + column, static_cast<float>(value));
  }

  std::int64_t mask_index(std::int64_t row, std::int64_t column) const {
    const std::int64_t inner = option("mask_inner", rows()), middle = option("mask_middle", 1);
    return row / inner / middle * option("mask_outer_stride", 0) + row / inner % middle * option("mask_middle_stride", 0) +
           row % inner * option("mask_row_stride", cols()) + column;
  }
  bool takes_part(std::int64_t row, std::int64_t column) const {
    if (option("causal", 0) == 1 && column > row % cols()) return false;
    if (option("valid_cols", 0) == 1 &&
        column >= read_integer(DType::i32, array("valid_cols").data, row / option("valid_cols_group", 1)))
      return false;
    return mask() != "keep" || read_integer(DType::u8, array("mask").data, mask_index(row, column)) != 0;
  }

  void solve(std::int64_t row) { backward() ? solve_backward(row) : solve_forward(row); }

  void solve_forward(std::int64_t row) {
    std::vector<long double> values;
    long double largest = -INFINITY, sum = 0;
    for (std::int64_t c = 0; c < cols(); ++c) {
      const auto x = static_cast<float>(read(0, row, c));
      double value = x * scale();
      if (mask() == "add") {
        const HostArray& added = array("mask");
        const auto addend = static_cast<float>(read_element(added.info.dtype, added.data, mask_index(row, c)));
        value = std::fmaf(x, static_cast<float>(scale()), addend);
      }
      values.push_back(takes_part(row, c) ? value : -INFINITY);
      largest = std::isnan(values.back()) || std::isnan(largest) ? NAN : std::max(largest, values.back());
    }
    for (const long double value : values) sum += std::exp(value - largest);
    for (std::int64_t c = 0; c < cols(); ++c) {
      const long double below = values[static_cast<std::size_t>(c)] - largest;
      const bool empty = largest == -INFINITY && option("safe", 0) == 1;
      const bool has_infinity = largest == INFINITY;
      write(row, c,
            empty          ? 0.0
            : has_infinity ? NAN
                           : static_cast<double>(logarithm() ? below - std::log(sum) : std::exp(below) / sum));
    }
  }

  void solve_backward(std::int64_t row) {
    long double sum = 0;
    bool empty = option("safe", 0) == 1;
    for (std::int64_t c = 0; c < cols(); ++c)
      if (takes_part(row, c)) {
        sum += logarithm() ? read(0, row, c) : static_cast<long double>(read(0, row, c)) * read(1, row, c);
        empty = empty && read(1, row, c) == 0;
      }
    for (std::int64_t c = 0; c < cols(); ++c) {
      const long double dy = read(0, row, c), y = read(1, row, c);
      const long double dx = scale() * (logarithm() ? dy - std::exp(y) * sum : y * (dy - sum));
      write(row, c, takes_part(row, c) && !empty ? static_cast<double>(dx) : 0.0);
    }
  }

  CheckResult check(std::int64_t max_rows = 1 << 30) const { return op.parse(problem)->check(arrays, max_rows); }
};

std::string fields_of(std::string_view op, DType dtype, const std::string& options = {}) {
  const char* const strides = op.ends_with("backward") ? ",dy_row_stride=100,y_row_stride=101,dx_row_stride=102"
                                                       : ",x_row_stride=100,y_row_stride=102";
  return "rows=40,cols=97,dtype=" + std::string(name(dtype)) + strides + options;
}

struct Subject {
  std::string_view op;
  DType dtype;
};

class Reference : public testing::TestWithParam<Subject> {
 protected:
  Solved solved() const { return {GetParam().op, fields_of(GetParam().op, GetParam().dtype)}; }
};

TEST_P(Reference, AcceptsTheCorrectResult) {
  const Solved right = solved();
  const CheckResult result = right.check();
  EXPECT_TRUE(result.passed) << result.first_failure;
  EXPECT_LE(result.max_error, 0.5000001);  // one rounding of the exact result
  EXPECT_EQ(result.checked_rows, 40);
}

TEST_P(Reference, RejectsASlightlyWrongElement) {
  Solved wrong = solved();
  const double right = wrong.read(wrong.output(), 20, 96);
  // log_softmax_backward is a difference; its tolerance is relative to the larger term.
  const double unit =
      GetParam().op == "log_softmax_backward" ? std::max(std::fabs(right), std::fabs(wrong.read(0, 20, 96))) : right;
  const double step = GetParam().dtype == DType::f32 ? 8 * spacing(DType::f32, unit) : spacing(GetParam().dtype, right);
  wrong.write(20, 96, right + step);
  const CheckResult result = wrong.check();
  EXPECT_FALSE(result.passed);
  EXPECT_NE(result.first_failure.find(wrong.backward() ? "dx[20,96]" : "y[20,96]"), std::string::npos)
      << result.first_failure;
}

TEST_P(Reference, RejectsNaNInsteadOfANumberAndViceVersa) {
  for (const auto& [row, value] : {std::pair<int, double>{1, 0.0}, {2, 0.0}, {3, 0.5}, {0, NAN}, {30, NAN}}) {
    Solved wrong = solved();
    wrong.write(row, 5, value);
    EXPECT_FALSE(wrong.check().passed) << row;
  }
}

TEST_P(Reference, RejectsInfinities) {
  for (const double value : {INFINITY, -INFINITY}) {
    Solved wrong = solved();
    wrong.write(30, 5, value);
    EXPECT_FALSE(wrong.check().passed) << value;
  }
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const std::string_view op : softmax_ops)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) all.push_back({op, dtype});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Operations, Reference, testing::ValuesIn(subjects()), [](const auto& subject) {
  return std::string(subject.param.op) + "_" + std::string(name(subject.param.dtype));
});

class ReferenceOptions : public testing::TestWithParam<std::string_view> {
 protected:
  bool backward() const { return GetParam().ends_with("backward"); }
  Solved solved(const std::string& options, InputKind kind = InputKind::edge_cases) const {
    return {GetParam(), fields_of(GetParam(), DType::f32, "," + options), kind};
  }
};

TEST_P(ReferenceOptions, AcceptTheCorrectResult) {
  std::vector<std::string> all{"scale=0.125",
                               "scale=3.7",
                               "causal=1",
                               "valid_cols=1",
                               "valid_cols=1,valid_cols_group=7,safe=1",
                               "mask=keep",
                               "mask=keep,mask_row_stride=0,safe=1",
                               "mask=keep,mask_inner=5,mask_middle=4,mask_middle_stride=485,mask_outer_stride=2000",
                               "scale=0.125,causal=1,valid_cols=1,mask=keep,safe=1"};
  if (!backward())
    for (const char* more : {"mask=add", "mask=add,mask_dtype=bf16,scale=0.125,safe=1",
                             "mask=add,mask_dtype=f16,mask_inner=5,mask_middle=4,mask_outer_stride=485,causal=1"})
      all.emplace_back(more);
  for (const std::string& options : all) {
    const CheckResult result = solved(options).check();
    EXPECT_TRUE(result.passed) << options << ": " << result.first_failure;
    EXPECT_LE(result.max_error, 0.5000001) << options;
  }
}

// Every option affects the reference.
TEST_P(ReferenceOptions, RejectTheResultWithoutTheOption) {
  for (const char* options : {"scale=0.125", "causal=1", "valid_cols=1", "valid_cols=1,valid_cols_group=7", "mask=keep",
                              "mask=keep,mask_row_stride=0"}) {
    Solved wrong = solved(options, InputKind::random);
    const Solved plain(GetParam(), fields_of(GetParam(), DType::f32), InputKind::random);
    ASSERT_EQ(wrong.storage[0], plain.storage[0]);
    std::memcpy(wrong.arrays[wrong.output()].data, plain.storage[plain.output()].data(),
                plain.storage[plain.output()].size());
    EXPECT_FALSE(wrong.check().passed) << options;
  }
}

TEST_P(ReferenceOptions, MaskedElementsAreExact) {
  const double masked = GetParam() == "log_softmax" ? -INFINITY : 0.0;
  for (const double value : {1e-30, -1.0, static_cast<double>(NAN)}) {
    Solved wrong = solved("causal=1");
    ASSERT_EQ(wrong.read(wrong.output(), 20, 21), masked);
    ASSERT_NE(wrong.read(wrong.output(), 20, 20), masked);
    wrong.write(20, 21, value);
    EXPECT_FALSE(wrong.check().passed) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, ReferenceOptions, testing::ValuesIn(softmax_ops),
                         [](const auto& op) { return std::string(op.param); });

TEST(ReferenceRows, EmptyRowsAreNaNUnlessSafe) {
  constexpr std::int64_t empty_row = 36;  // entry 3 of every eleven is 0
  for (const char* op : {"softmax", "log_softmax"})
    for (const bool safe : {false, true}) {
      Solved right(op, fields_of(op, DType::f32, safe ? ",valid_cols=1,safe=1" : ",valid_cols=1"));
      ASSERT_EQ(read_integer(DType::i32, right.array("valid_cols").data, empty_row), 0);
      EXPECT_TRUE(right.check().passed) << right.check().first_failure;
      EXPECT_EQ(std::isnan(right.read(1, empty_row, 5)), !safe);
      if (safe) {
        EXPECT_EQ(right.read(1, empty_row, 5), 0.0);
      }
      right.write(empty_row, 5, safe ? NAN : 0.0);
      EXPECT_FALSE(right.check().passed);
    }
}

TEST(ReferenceRows, ChecksInfiniteGradients) {
  for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
    Solved solved(op, "rows=3,cols=8", InputKind::random);
    write_element(DType::f32, solved.arrays[0].data, 8 + 2, -INFINITY);  // dy[1,2]: the sum is -inf, and dx +inf elsewhere
    solved.solve(1);
    ASSERT_EQ(solved.read(2, 1, 5), INFINITY);
    EXPECT_TRUE(solved.check().passed) << solved.check().first_failure;
    solved.write(1, 5, 0.25);
    EXPECT_FALSE(solved.check().passed);
  }
}

TEST(ReferenceSampling, IncludesTheFirstAndLastRow) {
  for (const std::string_view op : softmax_ops)
    for (const std::int64_t wrong_row : {0, 999}) {
      Solved solved(op, "rows=1000,cols=8", InputKind::random);
      solved.write(wrong_row, 0, 2.0);
      const CheckResult result = solved.check(10);
      EXPECT_FALSE(result.passed);
      EXPECT_EQ(result.checked_rows, 10);
      EXPECT_EQ(result.total_rows, 1000);
    }
}

TEST(Inputs, AreReproducibleAndDependOnTheSeed) {
  for (const std::string_view op : softmax_ops) {
    const Problem problem = normalized(op, "rows=33,cols=65,mask=keep,valid_cols=1");
    const auto fill = [&](std::uint64_t seed, InputKind kind) {
      std::vector<std::vector<std::byte>> storage;
      std::vector<HostArray> arrays;
      for (const ArrayInfo& info : find_op(op).parse(problem)->arrays()) storage.emplace_back(info.extent_bytes());
      for (std::size_t i = 0; i < storage.size(); ++i)
        arrays.push_back({find_op(op).parse(problem)->arrays()[i], storage[i].data()});
      find_op(op).parse(problem)->fill_inputs(seed, kind, arrays);
      return storage;
    };
    EXPECT_EQ(fill(1, InputKind::random), fill(1, InputKind::random));
    EXPECT_NE(fill(1, InputKind::random), fill(2, InputKind::random));
    EXPECT_NE(fill(1, InputKind::random), fill(1, InputKind::edge_cases));
    const auto one = fill(1, InputKind::random), other = fill(2, InputKind::random);
    for (std::size_t i = 0; i < one.size(); ++i)
      if (find_op(op).parse(problem)->arrays()[i].input) {
        EXPECT_NE(one[i], other[i]) << op << " " << i;
      }
  }
}

TEST(Inputs, RandomInputsAreFiniteSpreadAndCentered) {
  const Solved solved("softmax", "rows=100,cols=1000", InputKind::random);
  double sum = 0, squares = 0;
  for (std::int64_t row = 0; row < 100; ++row)
    for (std::int64_t column = 0; column < 1000; ++column) {
      const double x = solved.read(0, row, column);
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
    }
  EXPECT_NEAR(sum / 1e5, 0.0, 0.05);
  EXPECT_NEAR(squares / 1e5, 4.0, 0.1);
}

TEST(Inputs, GradientInputsAreConsistent) {
  for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
    const Solved solved(op, "rows=20,cols=1000", InputKind::random);
    for (std::int64_t row = 0; row < 20; ++row) {
      double sum = 0;
      for (std::int64_t c = 0; c < 1000; ++c) {
        const double y = solved.read(1, row, c);
        ASSERT_TRUE(std::isfinite(solved.read(0, row, c)));
        ASSERT_TRUE(solved.logarithm() ? y <= 0 : y >= 0 && y <= 1) << y;
        sum += solved.logarithm() ? std::exp(y) : y;
      }
      EXPECT_NEAR(sum, 1.0, 1e-5) << op << " " << row;
    }
    // Edge cases have rows without a finite result, and rows where a large gradient cancels.
    const Solved edge_cases(op, "rows=20,cols=64");
    EXPECT_TRUE(std::isnan(edge_cases.read(1, 1, 0)));
    EXPECT_GT(edge_cases.read(0, 4, 0), 9000);
    EXPECT_EQ(edge_cases.read(0, 0, 7), 1.0);
  }
}

TEST(Inputs, EdgeCaseRowsHaveSpecialValues) {
  const Solved solved("softmax", "rows=20,cols=64");
  int nan = 0, plus = 0, minus = 0, denormal = 0, offset = 0;
  for (std::int64_t row = 0; row < 20; ++row)
    for (std::int64_t column = 0; column < 64; ++column) {
      const double x = solved.read(0, row, column);
      nan += std::isnan(x);
      plus += x == INFINITY;
      minus += x == -INFINITY;
      denormal += x != 0 && std::fabs(x) < 0x1p-126;
      offset += std::fabs(x) > 9000 && std::fabs(x) < 11000;
    }
  EXPECT_EQ(nan, 1);
  EXPECT_EQ(plus, 1);
  EXPECT_EQ(minus, 64 + 32 + 32);
  EXPECT_GT(denormal, 32);
  EXPECT_EQ(offset, 128);
}

TEST(Inputs, EdgeCaseMasksHideRowsAndElements) {
  const Solved solved("softmax", "rows=40,cols=64,mask=keep,valid_cols=1");
  int empty = 0, full = 0, ones = 0, beyond = 0, below = 0;
  for (std::int64_t row = 0; row < 40; ++row) {
    int kept = 0;
    for (std::int64_t c = 0; c < 64; ++c) kept += read_integer(DType::u8, solved.array("mask").data, row * 64 + c) != 0;
    empty += kept == 0;
    full += kept == 64;
    const std::int64_t length = read_integer(DType::i32, solved.array("valid_cols").data, row);
    ones += length == 1;
    beyond += length > 64;
    below += length < 0;
  }
  EXPECT_GT(empty, 0);
  EXPECT_EQ(full, 0);
  EXPECT_GT(ones, 0);
  EXPECT_GT(beyond, 0);
  EXPECT_GT(below, 0);
}

}  // namespace
}  // namespace tunesmith
