// Between a prepared plan and the device nothing is allocated. Counts what operator new is asked for on this thread.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/api_fakes.h"
#include "tunesmith/buffer.h"

namespace {
thread_local long allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
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
  DeviceBuffer memory_{*fake_.engine, 4096};
  float* x_ = static_cast<float*>(memory_.data());
  float* y_ = x_ + 512;
  SoftmaxProblem problem_ = SoftmaxProblem::contiguous(4, 64, DType::f32);
};

TEST_F(HotPath, TheCounterCounts) {
  // Through the functions themselves: a new and a delete side by side may be optimized away.
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(4)); }), 10);
}

TEST_F(HotPath, LaunchingAPlanAllocatesNothing) {
  const Plan plan = fake_.engine->prepare(problem_);
  void* const arrays[] = {x_, y_};
  EXPECT_EQ(allocations_of([&] { plan.launch(arrays); }), 0);
  EXPECT_EQ(allocations_of([&] { plan.launch(x_, y_); }), 0);
  EXPECT_EQ(fake_.device->launches, 20);
}

TEST_F(HotPath, ASeenOneShotCallAllocatesNothing) {
  EXPECT_GT(allocations_of([&] { fake_.engine->softmax(x_, y_, problem_); }), 0);  // the first of them prepares
  EXPECT_EQ(allocations_of([&] { fake_.engine->softmax(x_, y_, problem_); }), 0);
  problem_.rows = 0;
  fake_.engine->softmax(x_, y_, problem_);
  EXPECT_EQ(allocations_of([&] { fake_.engine->softmax(x_, y_, problem_); }), 0);
  EXPECT_EQ(fake_.device->launches, 20);
}

}  // namespace
}  // namespace tunesmith
