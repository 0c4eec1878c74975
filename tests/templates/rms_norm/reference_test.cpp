// The check against the float64 reference accepts the right result and rejects a slightly wrong one. The right result is
// computed here from the definition.

#include <gtest/gtest.h>

#include <cmath>

#include "templates/half.h"
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
    write_element(array.info.dtype, array.data, row * array.info.strides[0] + column, static_cast<float>(value));
  }

  /// Writes y, and rstd if there is one.
  void solve(double eps, double offset) {
    for (std::int64_t row = 0; row < rows(); ++row) {
      long double sum = 0;
      for (std::int64_t c = 0; c < cols(); ++c) sum += static_cast<long double>(read("x", row, c)) * read("x", row, c);
      if (sum > 3.4028235e38L) sum = INFINITY;  // as float32 sums do
      const auto rstd = static_cast<double>(1 / std::sqrt(sum / static_cast<long double>(cols()) + eps));
      if (find("rstd") != nullptr) write("rstd", row, 0, rstd);
      for (std::int64_t c = 0; c < cols(); ++c)
        write("y", row, c, read("x", row, c) * rstd * (find("weight") == nullptr ? 1 : read("weight", c, 0) + offset));
    }
  }

  CheckResult check() const { return problem->check(arrays, 1 << 20); }
};

TEST(RmsNormReference, AcceptsTheDefinitionInEveryRow) {
  for (const char* dtype : {"f32", "f16", "bf16"})
    for (const char* options : {"eps=0", "eps=0.001", "eps=0.001,weight=1,weight_offset=0.5,rstd=1"}) {
      Arrays arrays("rows=20,cols=130,x_row_stride=133,dtype=" + std::string(dtype) + "," + options);
      const bool without = std::string(options) == "eps=0";
      arrays.solve(without ? 0 : 0.001F, 0.5);
      const CheckResult result = arrays.check();
      EXPECT_TRUE(result.passed) << dtype << " " << options << ": " << result.first_failure;
      EXPECT_EQ(result.checked_rows, 20);
      EXPECT_LE(result.max_error, 0.51);
    }
}

TEST(RmsNormReference, RejectsWrongElements) {
  struct Wrong {
    const char* dtype;
    double factor;
  };
  for (const Wrong& wrong : {Wrong{"f32", 1 + 0x1.4p-20}, {"f16", 1 + 0x1.8p-11}, {"bf16", 1 + 0x1.8p-8}}) {
    Arrays arrays(std::string("rows=20,cols=130,weight=1,rstd=1,dtype=") + wrong.dtype, InputKind::random);
    arrays.solve(1e-6F, 0);
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
    arrays.write("rstd", 11, 0, right * (1 + 0x1.4p-20));
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

}  // namespace
}  // namespace tunesmith
