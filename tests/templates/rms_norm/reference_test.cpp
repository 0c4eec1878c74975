// The check against the float64 reference accepts the right result and rejects a slightly wrong one. The right result is
// computed here from the definition.

#include <gtest/gtest.h>

#include <cmath>

#include "core/half.h"
#include "tests/templates/rms_norm/cases.h"

namespace tunesmith {
namespace {

/// A problem with arrays in host memory and inputs for edge cases.
struct Arrays {
  ParsedProblemPtr problem;
  std::vector<std::vector<std::byte>> storage;
  std::vector<HostArray> arrays;

  explicit Arrays(const std::string& fields, InputKind kind = InputKind::edge_cases)
      : problem(find_op("rms_norm").parse(test::normalized("rms_norm", fields))) {
    for (const ArrayInfo& info : problem->arrays()) {
      storage.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
      arrays.push_back({info, storage.back().data()});
    }
    problem->fill_inputs(3, kind, arrays);
  }

  std::int64_t rows() const { return arrays[0].info.shape[0]; }
  std::int64_t cols() const { return arrays[0].info.shape[1]; }
  HostArray* find(const char* name) {
    for (HostArray& array : arrays)
      if (array.info.name == name) return &array;
    return nullptr;
  }
  double read(const char* name, std::int64_t row, std::int64_t column) {
    const HostArray& array = *find(name);
    return read_element(array.info.dtype, array.data, row * array.info.strides[0] + column);
  }
  void write(const char* name, std::int64_t row, std::int64_t column, double value) {
    const HostArray& array = *find(name);
    write_element(array.info.dtype, array.data, row * array.info.strides[0] + column, value);
  }

  /// Writes y, and rstd if there is one.
  void solve(double eps, double offset) {
    for (std::int64_t row = 0; row < rows(); ++row) {
      long double sum = 0;
      for (std::int64_t c = 0; c < cols(); ++c) sum += static_cast<long double>(read("x", row, c)) * read("x", row, c);
      const bool is_double = arrays[0].info.dtype == DType::f64;
      if (sum > (is_double ? 0x1.fffffffffffffp1023L : 3.4028235e38L)) sum = INFINITY;  // as sums of kernels do
      const auto rstd = static_cast<double>(1 / std::sqrt(sum / static_cast<long double>(cols()) + eps));
      if (find("rstd") != nullptr) write("rstd", row, 0, rstd);
      for (std::int64_t c = 0; c < cols(); ++c)
        write("y", row, c, read("x", row, c) * rstd * (find("weight") == nullptr ? 1 : read("weight", c, 0) + offset));
    }
  }

  CheckResult check() const { return problem->check(arrays, 1 << 20); }
};

// A kernel of f64 that rounds one step to float32 fails.
TEST(RmsNormReference, RejectsStepsInFloat32OfF64) {
  for (const char* step : {"", "sum", "rstd", "eps"}) {
    const std::string rounds = step;
    Arrays arrays("rows=17,cols=130,dtype=f64,eps=0.1,rstd=1", InputKind::random);
    const auto rounded = [&](const char* name, long double value) -> long double {
      return rounds == name ? static_cast<float>(value) : value;
    };
    for (std::int64_t row = 0; row < arrays.rows(); ++row) {
      long double sum = 0;
      for (std::int64_t c = 0; c < arrays.cols(); ++c)
        sum = rounded("sum", sum + static_cast<long double>(arrays.read("x", row, c)) * arrays.read("x", row, c));
      const long double mean = sum / static_cast<long double>(arrays.cols()) + rounded("eps", 0.1);
      const auto rstd = static_cast<double>(rounded("rstd", 1 / std::sqrt(mean)));
      arrays.write("rstd", row, 0, rstd);
      for (std::int64_t c = 0; c < arrays.cols(); ++c) arrays.write("y", row, c, arrays.read("x", row, c) * rstd);
    }
    const CheckResult result = arrays.check();
    EXPECT_EQ(result.passed, rounds.empty()) << step << ": " << result.first_failure;
  }
}

TEST(RmsNormReference, AcceptsTheDefinitionInEveryRow) {
  for (const char* dtype : {"f32", "f16", "bf16", "f64"})
    for (const char* options : {"eps=0", "eps=0.001", "eps=0.001,weight=1,weight_offset=0.5,rstd=1"}) {
      Arrays arrays("rows=20,cols=130,x_row_stride=133,dtype=" + std::string(dtype) + "," + options);
      const bool without = std::string(options) == "eps=0";
      const bool is_double = std::string(dtype) == "f64";
      arrays.solve(without ? 0 : is_double ? 0.001 : 0.001F, 0.5);
      const CheckResult result = arrays.check();
      EXPECT_TRUE(result.passed) << dtype << " " << options << ": " << result.first_failure;
      EXPECT_EQ(result.checked_rows, 20);
      EXPECT_LE(result.max_error, is_double ? 3 : 0.51);  // of f64, each step here is rounded to double
    }
}

TEST(RmsNormReference, RejectsWrongElements) {
  struct Wrong {
    const char* dtype;
    double factor;
  };
  for (const Wrong& wrong :
       {Wrong{"f32", 1 + 0x1.4p-20}, {"f16", 1 + 0x1.8p-11}, {"bf16", 1 + 0x1.8p-8}, {"f64", 1 + 0x1.6p-49}}) {
    Arrays arrays(std::string("rows=20,cols=130,weight=1,rstd=1,dtype=") + wrong.dtype, InputKind::random);
    arrays.solve(std::string(wrong.dtype) == "f64" ? 1e-6 : 1e-6F, 0);
    ASSERT_TRUE(arrays.check().passed) << arrays.check().first_failure;
    for (const std::int64_t row : {0, 7, 19})
      for (const std::int64_t column : {0, 64, 129}) {
        const double right = arrays.read("y", row, column);
        arrays.write("y", row, column, right * wrong.factor);
        const CheckResult result = arrays.check();
        EXPECT_FALSE(result.passed) << wrong.dtype;
        const std::string place = "y[" + std::to_string(row) + "," + std::to_string(column) + "] is ";
        EXPECT_EQ(result.first_failure.find(place), 0U) << result.first_failure;
        arrays.write("y", row, column, right);
      }
    const double right = arrays.read("rstd", 11, 0);
    arrays.write("rstd", 11, 0, right * (1 + (std::string(wrong.dtype) == "f64" ? 0x1.6p-49 : 0x1.4p-20)));
    EXPECT_EQ(arrays.check().first_failure.find("rstd[11] is "), 0U) << arrays.check().first_failure;
  }
}

TEST(RmsNormReference, SpecialRowsAreThoseOfFloat32) {
  Arrays arrays("rows=16,cols=64,eps=0,rstd=1");
  arrays.solve(0, 0);
  ASSERT_TRUE(arrays.check().passed) << arrays.check().first_failure;
  EXPECT_TRUE(std::isinf(arrays.read("rstd", 0, 0)));  // zeros
  EXPECT_TRUE(std::isnan(arrays.read("y", 0, 0)));
  EXPECT_EQ(arrays.read("rstd", 1, 0), 0);  // an infinity
  EXPECT_TRUE(std::isnan(arrays.read("y", 1, 32)));
  EXPECT_EQ(arrays.read("y", 1, 31), 0);
  EXPECT_TRUE(std::isnan(arrays.read("rstd", 3, 0)));      // NaN
  EXPECT_EQ(arrays.read("rstd", 5, 0), 0);                 // the sum overflows, no square does
  EXPECT_NEAR(std::fabs(arrays.read("y", 6, 0)), 1, 0.5);  // the sum just does not
  // Each of these alone is an error.
  for (const auto& [name, row, column, value] : {std::tuple{"y", 0, 0, 0.0},
                                                 {"y", 1, 31, 1e-30},
                                                 {"y", 1, 32, 0.0},
                                                 {"y", 3, 5, 1.0},
                                                 {"y", 5, 0, 1.0},
                                                 {"y", 6, 0, 0.0},
                                                 {"rstd", 0, 0, 1.0},
                                                 {"rstd", 5, 0, 1e-19}}) {
    const double right = arrays.read(name, row, column);
    arrays.write(name, row, column, value);
    EXPECT_FALSE(arrays.check().passed) << name << " " << row;
    arrays.write(name, row, column, right);
  }
}

// As of float32, and as in PyTorch: nothing is rescaled, so 1 / rms is 0 where the sum of squares overflows.
TEST(RmsNormReference, SpecialRowsOfF64AreThoseOfDouble) {
  Arrays arrays("rows=16,cols=64,dtype=f64,eps=0,rstd=1");
  for (std::int64_t c = 0; c < arrays.cols(); ++c) arrays.write("x", 13, c, c == 5 ? 1e200 : 1);  // one square overflows
  for (std::int64_t c = 0; c < arrays.cols(); ++c) arrays.write("x", 14, c, 1e30);  // squares overflow float32 alone
  arrays.solve(0, 0);
  ASSERT_TRUE(arrays.check().passed) << arrays.check().first_failure;
  EXPECT_TRUE(std::isinf(arrays.read("rstd", 0, 0)));  // zeros
  EXPECT_TRUE(std::isnan(arrays.read("y", 1, 32)));    // an infinity
  EXPECT_TRUE(std::isnan(arrays.read("rstd", 3, 0)));  // NaN
  EXPECT_EQ(arrays.read("rstd", 4, 0), 0);
  EXPECT_EQ(arrays.read("rstd", 5, 0), 0);                 // the sum overflows, no square does
  EXPECT_NEAR(std::fabs(arrays.read("y", 6, 0)), 1, 0.5);  // the sum just does not
  EXPECT_EQ(arrays.read("y", 13, 5), 0);
  EXPECT_NEAR(arrays.read("y", 14, 0), 1, 1e-15);
  // Each of these alone is an error.
  for (const auto& [name, row, column, value] : {std::tuple{"y", 5, 0, 1e-300},
                                                 {"y", 4, 0, NAN},
                                                 {"y", 6, 0, 0.0},
                                                 {"y", 13, 5, NAN},
                                                 {"y", 13, 5, 8.0},
                                                 {"y", 14, 0, 0.0},
                                                 {"rstd", 13, 0, 8e-200},
                                                 {"rstd", 14, 0, 0.0}}) {
    const double right = arrays.read(name, row, column);
    arrays.write(name, row, column, value);
    EXPECT_FALSE(arrays.check().passed) << name << " " << row;
    arrays.write(name, row, column, right);
  }
}

}  // namespace
}  // namespace tunesmith
