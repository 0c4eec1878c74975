// Shipped row programs as operations of their own: a name, fields and named arrays.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "templates/op.h"
#include "templates/row_program/shipped_op.h"
#include "tests/api/engine/host_options.h"
#include "tests/support/cases.h"
#include "tunesmith/engine.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

// Gradients are compiled and compared with float64 by row_program_op_test.
TEST(ShippedPrograms, EachRunsByItsName) {
  Engine engine(test::host_engine_options());
  int programs = 0;
  for (const Op* op : shipped_program_ops()) {
    if (op->name().ends_with("_gradient")) continue;
    SCOPED_TRACE(op->name());
    Problem problem{std::string(op->name()), {{"rows", 3}, {"cols", 256}, {"dtype", "bf16"}}};
    ParsedProblemPtr parsed;
    try {
      parsed = op->parse(problem);
    } catch (const Error&) {  // a number without a default
      problem.fields.set("numbers", std::string("seed=7"));
      parsed = op->parse(problem);
    }
    std::vector<std::vector<std::max_align_t>> memory;
    std::vector<HostArray> arrays;
    for (const ArrayInfo& info : parsed->arrays()) {
      memory.emplace_back(static_cast<std::size_t>(info.extent_bytes()) / sizeof(std::max_align_t) + 1);
      arrays.push_back({info, reinterpret_cast<std::byte*>(memory.back().data())});
    }
    std::vector<NamedArray> named;
    for (const HostArray& array : arrays) named.push_back({array.info.name, array.data});
    parsed->fill_inputs(11, InputKind::random, arrays);
    engine.run(problem, std::span<const NamedArray>(named));
    engine.synchronize();
    const CheckResult check = parsed->check(arrays, 10);
    EXPECT_TRUE(check.passed) << check.first_failure;
    ++programs;
  }
  EXPECT_GE(programs, 24);
}

// The call that docs/row-programs.md and engine.h show.
TEST(ShippedPrograms, OneLineWithNamedArrays) {
  Engine engine(test::host_engine_options());
  alignas(16) float x[8] = {1, 2, 3, 4, -1, -1, 1, 1}, w[4] = {1, 1, 2, 2}, b[4] = {0, 0, 0, 5}, y[8] = {};
  engine.run({"layer_norm", {{"rows", 2}, {"cols", 4}, {"dtype", "f32"}}}, {{"x", x}, {"w", w}, {"b", b}, {"y", y}});
  engine.synchronize();
  const double rstd = 1 / std::sqrt(1.25 + 1e-5);
  const double expected[] = {-1.5 * rstd, -0.5 * rstd, 0.5 * rstd * 2, 1.5 * rstd * 2 + 5};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(static_cast<double>(y[i]), expected[i], 1e-6);
  EXPECT_NEAR(static_cast<double>(y[4]), -1, 1e-5);
  EXPECT_NEAR(static_cast<double>(y[7]), 7, 1e-4);
  try {
    engine.run({"layer_norm", {{"rows", 2}, {"cols", 4}}}, {{"x", x}, {"weight", w}, {"b", b}, {"y", y}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tunesmith
