// Invalid input throws one error with the argument, its value and the allowed values. Nothing is compiled, launched or
// written.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/api/engine/fakes.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

using fakes::expect_error;
using fakes::FakeEngine;
using fakes::in_mode;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

class BadInput : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(fake_.compiler->compilations, compilations_);
    EXPECT_EQ(fake_.device->launches, 0);
    for (std::size_t i = 0; i < memory_.bytes() / sizeof(float); ++i) ASSERT_EQ(base()[i], 7.0f) << "written at " << i;
  }
  BadInput() { std::fill_n(base(), memory_.bytes() / sizeof(float), 7.0f); }

  float* base() const { return static_cast<float*>(memory_.data()); }
  void rejects_problem(Problem problem, std::initializer_list<std::string_view> words) {
    expect_error([&] { (void)fake_.engine->prepare(problem); }, ErrorCode::invalid_argument, words);
  }
  void rejects_config(const std::string& config, std::initializer_list<std::string_view> words) {
    const Problem problem{"softmax", {{"rows", 8}, {"cols", 100}}};
    expect_error([&] { (void)fake_.engine->prepare(problem, {.config = {parse_fields(config, "config")}}); },
                 ErrorCode::invalid_argument, words);
  }
  void rejects_call(const void* x, void* y, const SoftmaxProblem& problem, std::initializer_list<std::string_view> words) {
    expect_error([&] { fake_.engine->softmax(x, y, problem); }, ErrorCode::invalid_argument, words);
  }

  FakeEngine fake_{in_mode(Mode::off)};
  DeviceBuffer memory_{*fake_.engine, 8192};
  int compilations_ = 0;
};

SoftmaxProblem small(DType dtype = DType::f32) { return SoftmaxProblem::contiguous(8, 16, dtype); }

TEST_F(BadInput, UnknownOperation) {
  rejects_problem({"softmacks", {{"rows", 8}, {"cols", 100}}},
                  {"op is 'softmacks'; allowed: softmax", "cross_entropy_combine, rms_norm",
                   "and shipped row programs such as layer_norm"});
  rejects_problem({"", {}}, {"softmax"});
}

TEST_F(BadInput, Shapes) {
  rejects_problem({"softmax", {{"cols", 100}}}, {"rows", "missing"});
  rejects_problem({"softmax", {{"rows", -1}, {"cols", 100}}}, {"rows is -1", "0"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", -1}}}, {"cols is -1", "0"});
  rejects_problem({"cross_entropy", {{"rows", 8}, {"cols", 0}}}, {"cols is 0", "1"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", huge}}}, {"cols", std::to_string(huge)});
  rejects_problem({"softmax", {{"rows", huge}, {"cols", 4096}}}, {"rows", std::to_string(huge)});  // rows * cols overflows
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"x_row_stride", 99}}}, {"x_row_stride is 99", "100"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"y_row_stride", -5}}}, {"y_row_stride", "-5"});
  rejects_problem({"softmax", {{"rows", huge / 2}, {"cols", 1}, {"x_row_stride", huge}}}, {"rows"});
}

TEST_F(BadInput, Fields) {
  rejects_problem({"softmax", {{"rows", 8}, {"columns", 100}}}, {"columns", "cols"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"dtype", "f128"}}}, {"dtype", "f128", "f32, f16, bf16"});
  rejects_problem({"softmax", {{"rows", "many"}, {"cols", 100}}}, {"rows", "many", "integer"});
  rejects_problem({"softmax", {{"rows", 8.5}, {"cols", 100}}}, {"rows", "8.5", "integer"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"x_alignment", 3}}}, {"x_alignment is 3", "power of two"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"x_alignment", 2}}}, {"x_alignment is 2", "4"});
}

TEST_F(BadInput, Configurations) {
  rejects_config("variant=fastest", {"variant", "fastest", "warp", "block", "two_pass"});
  rejects_config("thread=128", {"thread"});
  rejects_config("threads=100", {"configuration: threads is 100", "power of two"});
  rejects_config("threads=4096", {"threads", "4096", "1024"});
  rejects_config("variant=two_pass,load=sideways", {"load", "sideways", "plain"});
  // Valid values that are impossible on the device: the columns do not fit in the registers of one warp.
  const Problem wide{"softmax", {{"rows", 8}, {"cols", 200000}}};
  expect_error([&] { (void)fake_.engine->prepare(wide, {.config = {parse_fields("variant=warp", "config")}}); },
               ErrorCode::invalid_argument, {"variant=warp", "registers"});
}

TEST_F(BadInput, NullAddresses) {
  rejects_call(nullptr, base(), small(), {"x", "null"});
  rejects_call(base(), nullptr, small(), {"y", "null"});
  rejects_call(nullptr, nullptr, small(), {"x", "null"});
}

TEST_F(BadInput, MisalignedAddresses) {
  auto* const bytes = reinterpret_cast<std::byte*>(base());
  rejects_call(bytes + 2, base() + 1024, small(), {"x is at 0x", "f32", "multiple of 4"});
  rejects_call(base(), bytes + 4097, small(DType::bf16), {"y is at 0x", "bf16", "multiple of 2"});
}

TEST_F(BadInput, InPlaceArraysThatDiffer) {
  SoftmaxProblem problem = small();
  problem.out_dtype = DType::f16;
  rejects_call(base(), base(), problem, {"in_place"});
  problem = small();
  problem.y_row_stride = 20;
  rejects_call(base(), base(), problem, {"in_place"});
}

TEST_F(BadInput, TypedShapes) {
  rejects_call(base(), base() + 1024, SoftmaxProblem::contiguous(-8, 16, DType::f32), {"rows is -8"});
  rejects_call(base(), base() + 1024, SoftmaxProblem::contiguous(8, -16, DType::f32), {"cols is -16"});
  rejects_call(nullptr, nullptr, SoftmaxProblem::contiguous(0, -1, DType::f32), {"cols is -1"});
  SoftmaxProblem problem = small();
  problem.x_row_stride = 15;
  rejects_call(base(), base() + 1024, problem, {"x_row_stride is 15", "16"});
  problem = small();
  problem.dtype = static_cast<DType>(99);
  rejects_call(base(), base() + 1024, problem, {"dtype"});
}

TEST_F(BadInput, ArraysOfOptions) {
  const auto rejects = [&](const SoftmaxProblem& problem, const SoftmaxArrays& arrays,
                           std::initializer_list<std::string_view> words) {
    expect_error(
        [&] {
          fake_.engine->run(problem, {base(), base() + 1024, arrays.mask, arrays.valid_cols});
        },
        ErrorCode::invalid_argument, words);
  };
  auto* const bytes = reinterpret_cast<std::byte*>(base() + 512);
  SoftmaxProblem problem = small();
  rejects(problem, {.mask = bytes}, {"mask is given", "the problem does not have it"});
  problem.options.mask.kind = SoftmaxMask::Kind::add;
  rejects(problem, {}, {"mask is a null pointer"});
  rejects_call(base(), base() + 1024, problem, {"mask is a null pointer"});
  rejects(problem, {.mask = bytes + 2}, {"mask is at 0x", "f32", "multiple of 4"});
  problem.options.mask.dtype = DType::u8;
  rejects(problem, {.mask = bytes}, {"mask_dtype", "u8", "f32, f16, bf16"});
  problem = small();
  problem.options.valid_cols = true;
  rejects(problem, {}, {"valid_cols is a null pointer"});
  rejects(problem, {.valid_cols = bytes + 2}, {"valid_cols is at 0x", "i32", "multiple of 4"});
  problem.options.valid_cols_group = 0;
  rejects(problem, {.valid_cols = bytes}, {"valid_cols_group is 0", "1"});
  problem = small();
  problem.options.mask.inner = 4;  // without a mask
  rejects(problem, {}, {"mask_inner is 4", "only with mask=add or mask=keep"});
}

TEST_F(BadInput, OptionValues) {
  for (const double scale : {0.0, -1.0, 1e31, static_cast<double>(NAN)}) {
    SoftmaxProblem problem = small();
    problem.options.scale = scale;
    rejects_call(base(), base() + 1024, problem, {"scale is", "allowed: 1e-30 to 1e+30"});
  }
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"mask", "multiply"}}}, {"mask is 'multiply'", "add", "keep"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"mask_inner", 4}}},
                  {"mask_inner is 4", "only with mask=add or mask=keep"});
  rejects_problem({"softmax", {{"rows", 8}, {"cols", 100}, {"causal", 2}}}, {"causal is 2", "0 to 1"});
  rejects_problem({"softmax_backward", {{"rows", 8}, {"cols", 100}, {"mask", "add"}}}, {"mask is 'add'", "none, keep"});
}

TEST_F(BadInput, Gradients) {
  const auto rejects = [&](const void* dy, const void* y, void* dx, const SoftmaxBackwardProblem& problem,
                           std::initializer_list<std::string_view> words) {
    expect_error([&] { fake_.engine->run(problem, {.dy = dy, .y = y, .dx = dx}); }, ErrorCode::invalid_argument, words);
  };
  float* const other = base() + 512;
  float* const third = base() + 1024;
  const SoftmaxBackwardProblem problem = SoftmaxBackwardProblem::contiguous(8, 16, DType::f32);
  rejects(nullptr, other, third, problem, {"dy is a null pointer"});
  rejects(base(), nullptr, third, problem, {"y is a null pointer"});
  rejects(base(), other, nullptr, problem, {"dx is a null pointer"});
  rejects(base(), reinterpret_cast<std::byte*>(other) + 1, third, problem, {"y is at 0x", "multiple of 4"});
  SoftmaxBackwardProblem mixed = problem;
  mixed.out_dtype = DType::f16;
  rejects(base(), other, base(), mixed, {"in_place is 1", "dy", "dx"});
  mixed = problem;
  mixed.y_row_stride = 15;
  rejects(base(), other, third, mixed, {"y_row_stride is 15", "16"});
}

TEST_F(BadInput, ArraysOfAPlan) {
  const Plan plan = fake_.engine->prepare(small());
  compilations_ = 1;
  const auto rejects = [&](std::vector<void*> arrays, std::initializer_list<std::string_view> words) {
    expect_error([&] { plan.launch(arrays); }, ErrorCode::invalid_argument, words);
  };
  rejects({}, {"0 arrays", "2"});
  rejects({base(), base() + 1024, base()}, {"3 arrays", "2"});
  rejects({nullptr, base()}, {"'x'", "null"});
  rejects({base(), base() + 1}, {"'y'", "0x", "16 bytes"});
  rejects({base(), base() + 64}, {"'x'", "'y'", "overlap"});
  rejects({base() + 64, base()}, {"'x'", "'y'", "overlap"});
  rejects({base(), base()}, {"same array", "in_place"});
  // One-shot calls launch the same plan, so the checks are the same.
  rejects_call(base(), base() + 64, small(), {"'x'", "'y'", "overlap"});
}

}  // namespace
}  // namespace tunesmith
