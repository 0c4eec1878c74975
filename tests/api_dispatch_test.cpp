// The lock-free table behind one-shot calls, and the key it is asked by.

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <set>
#include <thread>

#include "api/dispatch_table.h"
#include "api/softmax_key.h"

namespace tunesmith {
namespace {

struct Number {
  std::uint64_t value = 0;
  bool operator==(const Number&) const = default;
  std::uint64_t hash() const noexcept { return value * 0x9e3779b97f4a7c15U; }
};

struct Colliding {
  std::uint64_t value = 0;
  bool operator==(const Colliding&) const = default;
  std::uint64_t hash() const noexcept { return ~std::uint64_t{0}; }
};

template <typename Key>
class DispatchTableOf : public testing::Test {};
using Keys = testing::Types<Number, Colliding>;
TYPED_TEST_SUITE(DispatchTableOf, Keys);

TYPED_TEST(DispatchTableOf, FindsWhatWasInsertedAndNothingElse) {
  DispatchTable<TypeParam, std::uint64_t> table(4);
  std::deque<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(table.find({i}), nullptr);
    table.insert({i}, values.emplace_back(i));
  }
  EXPECT_EQ(table.size(), 500u);
  for (std::uint64_t i = 0; i < 500; ++i) EXPECT_EQ(table.find({i}), &values[i]);
  EXPECT_EQ(table.find({500}), nullptr);
}

TYPED_TEST(DispatchTableOf, KeepsTheFirstValueOfAKey) {
  DispatchTable<TypeParam, std::uint64_t> table;
  const std::uint64_t first = 1, second = 2;
  table.insert({7}, first);
  table.insert({7}, second);
  EXPECT_EQ(table.find({7}), &first);
  EXPECT_EQ(table.size(), 1u);
}

TYPED_TEST(DispatchTableOf, ReadersSeeWholeEntriesWhileWritersInsert) {
  constexpr std::uint64_t count = 2000;
  DispatchTable<TypeParam, std::uint64_t> table(4);
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = i;
  std::atomic<std::uint64_t> inserted{0};
  std::atomic<int> wrong{0};
  const auto read = [&](std::uint64_t seed) {
    while (inserted.load(std::memory_order_acquire) < count) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      const std::uint64_t known = inserted.load(std::memory_order_acquire);
      const std::uint64_t key = (seed >> 33) % count;
      const std::uint64_t* value = table.find({key});
      if (value == nullptr ? key < known : *value != key) ++wrong;
    }
  };
  {
    std::jthread first(read, 1), second(read, 2);
    for (std::uint64_t i = 0; i < count; ++i) {
      table.insert({i}, values[i]);
      inserted.store(i + 1, std::memory_order_release);
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(SoftmaxKey, EveryFieldCounts) {
  alignas(64) std::byte memory[256];
  const SoftmaxProblem base = SoftmaxProblem::contiguous(8, 16, DType::f32);
  const void* x = memory;
  const void* y = memory + 128;
  std::vector<SoftmaxKey> keys{{x, y, base}};
  const auto vary = [&](auto change) {
    SoftmaxProblem problem = base;
    change(problem);
    keys.emplace_back(x, y, problem);
  };
  vary([](SoftmaxProblem& p) { p.rows = 9; });
  vary([](SoftmaxProblem& p) { p.cols = 17; });
  vary([](SoftmaxProblem& p) { p.dtype = DType::f16; });
  vary([](SoftmaxProblem& p) { p.out_dtype = DType::f16; });
  vary([](SoftmaxProblem& p) { p.dtype = p.out_dtype = DType::f16; });
  vary([](SoftmaxProblem& p) { p.dtype = DType::bf16; });
  vary([](SoftmaxProblem& p) { p.out_dtype = DType::bf16; });
  vary([](SoftmaxProblem& p) { p.x_row_stride = 20; });
  vary([](SoftmaxProblem& p) { p.y_row_stride = 20; });
  keys.emplace_back(x, x, base);
  for (const int offset : {2, 4, 8}) {
    keys.emplace_back(memory + offset, y, base);
    keys.emplace_back(x, memory + 128 + offset, base);
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(keys[i] == keys[j]) << i << " and " << j;
}

TEST(SoftmaxKey, SameKeyForWhatMakesNoDifference) {
  alignas(64) std::byte memory[256];
  SoftmaxProblem base = SoftmaxProblem::contiguous(8, 16, DType::f32);
  const SoftmaxKey key(memory, memory + 128, base);
  EXPECT_EQ(key, SoftmaxKey(memory + 16, memory + 64, base));  // 16 bytes are enough
  base.x_row_stride = base.y_row_stride = 16;                  // what 0 stands for
  base.x_alignment = base.y_alignment = 4;                     // the addresses tell
  base.in_place = true;
  EXPECT_EQ(key, SoftmaxKey(memory, memory + 128, base));
}

TEST(SoftmaxKey, HashSpreadsTheShapesOfRealModels) {
  std::set<std::uint64_t> upper_bits;
  int keys = 0;
  alignas(64) const std::byte memory[64] = {};
  for (std::int64_t rows = 1; rows <= 4096; rows *= 2)
    for (std::int64_t cols = 128; cols <= 262144; cols *= 2)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        ++keys;
        upper_bits.insert(SoftmaxKey(memory, memory + 16, SoftmaxProblem::contiguous(rows, cols, dtype)).hash() >> 54);
      }
  // 312 keys thrown at random into 1024 slots fill 269 of them on average.
  EXPECT_GT(upper_bits.size(), static_cast<std::size_t>(keys) * 3 / 4);
}

TEST(AlignmentClass, IsTheLargestPowerOfTwoUpTo16) {
  const auto at = [](std::uintptr_t address) { return alignment_class(reinterpret_cast<const void*>(address)); };
  EXPECT_EQ(at(1), 1u);
  EXPECT_EQ(at(6), 2u);
  EXPECT_EQ(at(12), 4u);
  EXPECT_EQ(at(24), 8u);
  EXPECT_EQ(at(48), 16u);
  EXPECT_EQ(at(4096), 16u);
  EXPECT_EQ(at(0), 16u);
}

}  // namespace
}  // namespace tunesmith
