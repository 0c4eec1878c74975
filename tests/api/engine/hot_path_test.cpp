// Launching a prepared plan does not allocate. Counts the allocations of operator new on this thread.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/api/engine/fakes.h"
#include "tunesmith/buffer.h"

namespace {
thread_local long allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tunesmith {
namespace {

template <typename Body>
long allocations_of(const Body& body) {
  const long before = allocations;
  for (int i = 0; i < 10; ++i) body();
  return allocations - before;
}

class HotPath : public testing::Test {
 protected:
  HotPath() { std::fill_n(x_, 512, 1.0f); }

  fakes::FakeEngine fake_{fakes::in_mode(Mode::off)};
  DeviceBuffer memory_{*fake_.engine, 16384};
  float* x_ = static_cast<float*>(memory_.data());
  float* y_ = x_ + 512;
  float* mask_ = x_ + 1024;
  float* valid_cols_ = x_ + 1536;
  float* dx_ = x_ + 2048;
  SoftmaxProblem problem_ = SoftmaxProblem::contiguous(4, 64, DType::f32);
};

TEST_F(HotPath, CountsAllocations) {
  // Calls the functions explicitly, because the compiler may remove a new expression with its delete.
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(4)); }), 10);
}

TEST_F(HotPath, LaunchingAPlanAllocatesNothing) {
  const Plan plan = fake_.engine->prepare(problem_);
  void* const arrays[] = {x_, y_};
  EXPECT_EQ(allocations_of([&] { plan.launch(arrays); }), 0);
  EXPECT_EQ(allocations_of([&] { plan.launch(x_, y_); }), 0);
  EXPECT_EQ(fake_.device->launches, 20);
}

TEST_F(HotPath, RepeatedOneShotCallAllocatesNothing) {
  EXPECT_GT(allocations_of([&] { fake_.engine->softmax(x_, y_, problem_); }), 0);  // the first call prepares
  EXPECT_EQ(allocations_of([&] { fake_.engine->softmax(x_, y_, problem_); }), 0);
  problem_.rows = 0;
  fake_.engine->softmax(x_, y_, problem_);
  EXPECT_EQ(allocations_of([&] { fake_.engine->softmax(x_, y_, problem_); }), 0);
  EXPECT_EQ(fake_.device->launches, 20);
}

TEST_F(HotPath, SoftmaxFamilyAllocatesNothing) {
  SoftmaxBackwardProblem gradient = SoftmaxBackwardProblem::contiguous(4, 64, DType::f32);
  const auto expect_none_but_at_first = [&](const auto& call) {
    EXPECT_GT(allocations_of(call), 0);
    EXPECT_EQ(allocations_of(call), 0);
  };
  expect_none_but_at_first([&] { fake_.engine->log_softmax(x_, y_, problem_); });
  expect_none_but_at_first([&] { fake_.engine->run(gradient, {.dy = x_, .y = y_, .dx = dx_}); });
  gradient.logarithm = true;
  expect_none_but_at_first([&] { fake_.engine->run(gradient, {.dy = x_, .y = y_, .dx = x_}); });
  EXPECT_EQ(fake_.compiler->compilations, 3);
  EXPECT_EQ(fake_.device->launches, 60);
}

TEST_F(HotPath, SoftmaxWithOptionsAllocatesNothing) {
  problem_.options.scale = 0.125;
  problem_.options.mask.kind = SoftmaxMask::Kind::add;
  problem_.options.valid_cols = true;
  SoftmaxBackwardProblem gradient = SoftmaxBackwardProblem::contiguous(4, 64, DType::f32);
  gradient.options = problem_.options;
  gradient.options.mask.kind = SoftmaxMask::Kind::keep;
  const auto forward = [&] { fake_.engine->run(problem_, {.x = x_, .y = y_, .mask = mask_, .valid_cols = valid_cols_}); };
  const auto backward = [&] {
    fake_.engine->run(gradient, {.dy = x_, .y = y_, .dx = dx_, .mask = mask_, .valid_cols = valid_cols_});
  };
  EXPECT_GT(allocations_of(forward), 0);
  EXPECT_EQ(allocations_of(forward), 0);
  EXPECT_GT(allocations_of(backward), 0);
  EXPECT_EQ(allocations_of(backward), 0);
  EXPECT_EQ(fake_.compiler->compilations, 2);
  EXPECT_EQ(fake_.device->launches, 40);
}

TEST_F(HotPath, CrossEntropyAllocatesNothing) {
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(4, 64, DType::f32);
  problem.z_loss = 1e-4;
  float* const more = dx_;
  const CrossEntropyArrays arrays{.logits = x_,
                                  .targets = valid_cols_,
                                  .weight = mask_,
                                  .loss = more,
                                  .lse = more + 64,
                                  .z_loss = more + 128,
                                  .argmax = more + 192,
                                  .num_correct = more + 256,
                                  .dlogits = y_};
  const auto loss = [&] { fake_.engine->run_checked(problem, arrays); };
  EXPECT_GT(allocations_of(loss), 0);
  EXPECT_EQ(allocations_of(loss), 0);
  const CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(4, 64, DType::f32);
  const auto gradient = [&] {
    fake_.engine->run(backward,
                      {.logits = x_, .targets = valid_cols_, .lse = more + 64, .dloss = more, .nll = mask_, .dlogits = x_});
  };
  EXPECT_GT(allocations_of(gradient), 0);
  EXPECT_EQ(allocations_of(gradient), 0);
  EXPECT_EQ(fake_.compiler->compilations, 2);
}

TEST_F(HotPath, AttentionAllocatesNothing) {
  AttentionProblem problem;
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.seq_q = 8;
  problem.head_dim = 16;
  problem.dtype = DType::f32;
  problem.causal = Causal::bottom_right;
  const AttentionArrays arrays{.q = x_, .k = y_, .v = mask_, .sinks = valid_cols_, .o = dx_, .lse = dx_ + 1024};
  const auto attention = [&] { fake_.engine->run(problem, arrays); };
  EXPECT_GT(allocations_of(attention), 0);
  EXPECT_EQ(allocations_of(attention), 0);
  EXPECT_EQ(fake_.compiler->compilations, 1);
  EXPECT_EQ(fake_.device->launches, 20);
}

}  // namespace
}  // namespace tunesmith
