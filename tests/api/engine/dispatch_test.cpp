// The lock-free table of one-shot calls, and its keys.

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <set>
#include <thread>

#include "api/dispatch/softmax_key.h"
#include "api/dispatch/table.h"

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

template <typename Key>
void expect_distinct(const std::vector<Key>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(keys[i] == keys[j]) << i << " and " << j;
      EXPECT_NE(keys[i].hash(), keys[j].hash()) << i << " and " << j;  // 64 bits of a few dozen keys
    }
}

TEST(SoftmaxKey, DependsOnEveryField) {
  alignas(64) std::byte memory[256];
  const SoftmaxProblem base = SoftmaxProblem::contiguous(8, 16, DType::f32);
  const void* x = memory;
  const void* y = memory + 128;
  std::vector<SoftmaxKey> keys{{x, y, base, false}, {x, y, base, true}};
  const auto vary = [&](auto change) {
    SoftmaxProblem problem = base;
    change(problem);
    keys.emplace_back(x, y, problem, false);
  };
  vary([](SoftmaxProblem& p) { p.rows = 9; });
  vary([](SoftmaxProblem& p) { p.cols = 17; });
  vary([](SoftmaxProblem& p) { p.dtype = DType::f16; });
  vary([](SoftmaxProblem& p) { p.out_dtype = DType::f16; });
  vary([](SoftmaxProblem& p) { p.out_dtype = p.dtype = DType::f16; });
  vary([](SoftmaxProblem& p) { p.dtype = DType::bf16; });
  vary([](SoftmaxProblem& p) { p.out_dtype = DType::bf16; });
  vary([](SoftmaxProblem& p) { p.x_row_stride = 20; });
  vary([](SoftmaxProblem& p) { p.y_row_stride = 20; });
  keys.emplace_back(x, x, base, false);
  for (const int offset : {2, 4, 8}) {
    keys.emplace_back(memory + offset, y, base, false);
    keys.emplace_back(x, memory + 128 + offset, base, false);
  }
  expect_distinct(keys);
}

TEST(SoftmaxBackwardKey, DependsOnEveryField) {
  alignas(64) std::byte memory[384];
  const SoftmaxBackwardProblem base = SoftmaxBackwardProblem::contiguous(8, 16, DType::f32);
  const void* dy = memory;
  const void* y = memory + 128;
  const void* dx = memory + 256;
  std::vector<SoftmaxBackwardKey> keys{{dy, y, dx, base, false}, {dy, y, dx, base, true}, {dy, y, dy, base, false}};
  const auto vary = [&](auto change) {
    SoftmaxBackwardProblem problem = base;
    change(problem);
    keys.emplace_back(dy, y, dx, problem, false);
  };
  vary([](SoftmaxBackwardProblem& p) { p.rows = 9; });
  vary([](SoftmaxBackwardProblem& p) { p.cols = 17; });
  vary([](SoftmaxBackwardProblem& p) { p.dtype = DType::bf16; });
  vary([](SoftmaxBackwardProblem& p) { p.out_dtype = DType::bf16; });
  vary([](SoftmaxBackwardProblem& p) { p.dy_row_stride = 20; });
  vary([](SoftmaxBackwardProblem& p) { p.y_row_stride = 20; });
  vary([](SoftmaxBackwardProblem& p) { p.dx_row_stride = 20; });
  for (const int offset : {2, 4, 8}) {
    keys.emplace_back(memory + offset, y, dx, base, false);
    keys.emplace_back(dy, memory + 128 + offset, dx, base, false);
    keys.emplace_back(dy, y, memory + 256 + offset, base, false);
  }
  expect_distinct(keys);
}

SoftmaxProblem masked(SoftmaxMask::Kind kind) {
  SoftmaxProblem problem = SoftmaxProblem::contiguous(8, 16, DType::f32);
  problem.options.mask.kind = kind;
  return problem;
}

TEST(SoftmaxOptionsKey, DependsOnEveryField) {
  alignas(64) std::byte memory[512];
  const void* x = memory;
  void* y = memory + 128;
  const SoftmaxArrays arrays{memory + 256, memory + 384};
  std::vector<SoftmaxOptionsKey> keys;
  const auto vary = [&](SoftmaxMask::Kind kind, auto change) {
    SoftmaxProblem problem = masked(kind);
    problem.options.valid_cols = true;
    change(problem);
    keys.emplace_back(x, y, problem, false, arrays);
  };
  constexpr auto none = SoftmaxMask::Kind::none, add = SoftmaxMask::Kind::add, keep = SoftmaxMask::Kind::keep;
  for (const SoftmaxMask::Kind kind : {none, add, keep}) vary(kind, [](SoftmaxProblem&) {});
  vary(add, [](SoftmaxProblem& p) { p.rows = 9; });
  vary(add, [](SoftmaxProblem& p) { p.cols = 17; });
  vary(add, [](SoftmaxProblem& p) { p.x_row_stride = 20; });
  vary(add, [](SoftmaxProblem& p) { p.y_row_stride = 20; });
  vary(add, [](SoftmaxProblem& p) { p.dtype = DType::f16; });
  vary(add, [](SoftmaxProblem& p) { p.options.scale = 0.125; });
  vary(add, [](SoftmaxProblem& p) { p.options.causal = true; });
  vary(add, [](SoftmaxProblem& p) { p.options.valid_cols = false; });
  vary(add, [](SoftmaxProblem& p) { p.options.valid_cols_group = 4; });
  vary(add, [](SoftmaxProblem& p) { p.options.safe = true; });
  vary(add, [](SoftmaxProblem& p) { p.options.mask.dtype = DType::f16; });
  vary(add, [](SoftmaxProblem& p) { p.options.mask.inner = 2; });
  vary(add, [](SoftmaxProblem& p) { p.options.mask.middle = 2; });
  vary(add, [](SoftmaxProblem& p) { p.options.mask.row_stride = 0; });
  vary(add, [](SoftmaxProblem& p) { p.options.mask.middle_stride = 32; });
  vary(add, [](SoftmaxProblem& p) { p.options.mask.outer_stride = 32; });
  for (const int offset : {2, 4, 8})
    keys.emplace_back(x, y, masked(add), false, SoftmaxArrays{memory + 256 + offset, nullptr});
  keys.emplace_back(x, y, masked(add), true, arrays);
  keys.emplace_back(x, x, masked(add), false, arrays);
  SoftmaxBackwardProblem gradient = SoftmaxBackwardProblem::contiguous(8, 16, DType::f32);
  gradient.options = masked(keep).options;
  keys.emplace_back(x, y, x, gradient, false, arrays);
  keys.emplace_back(x, y, y, gradient, false, arrays);
  keys.emplace_back(x, y, y, gradient, true, arrays);
  gradient.dx_row_stride = 20;
  keys.emplace_back(x, y, y, gradient, false, arrays);
  expect_distinct(keys);
}

TEST(SoftmaxKey, IgnoresFieldsWithoutEffect) {
  alignas(64) std::byte memory[256];
  SoftmaxProblem base = SoftmaxProblem::contiguous(8, 16, DType::f32);
  const SoftmaxKey key(memory, memory + 128, base, false);
  EXPECT_EQ(key, SoftmaxKey(memory + 16, memory + 64, base, false));  // 16 bytes are sufficient
  base.x_row_stride = base.y_row_stride = 16;                         // the meaning of 0
  base.x_alignment = base.y_alignment = 4;                            // the addresses determine it
  base.in_place = base.logarithm = true;                              // the call determines it
  EXPECT_EQ(key, SoftmaxKey(memory, memory + 128, base, false));
}

TEST(SoftmaxOptionsKey, IgnoresFieldsWithoutEffect) {
  alignas(64) std::byte memory[256];
  const auto key_of = [&](const SoftmaxProblem& problem) {
    return SoftmaxOptionsKey(memory, memory + 64, problem, false, {memory + 128, memory + 192});
  };
  SoftmaxProblem scaled = SoftmaxProblem::contiguous(8, 16, DType::f32);
  scaled.options.scale = 0.5;
  SoftmaxProblem same = scaled;
  same.options.valid_cols_group = 7;  // of an option that is off
  same.options.mask.inner = same.options.mask.outer_stride = 3;
  same.options.mask.dtype = DType::bf16;
  EXPECT_EQ(key_of(scaled), key_of(same));

  SoftmaxProblem kept = masked(SoftmaxMask::Kind::keep);
  same = kept;
  same.options.mask.dtype = DType::f16;  // it is u8
  same.options.mask.row_stride = 16;     // the meaning of -1
  same.options.mask.alignment = 1;       // the address determines it
  EXPECT_EQ(key_of(kept), key_of(same));
}

TEST(SoftmaxKey, HashDistributesShapesOfRealModels) {
  std::set<std::uint64_t> upper_bits;
  int keys = 0;
  alignas(64) const std::byte memory[64] = {};
  for (std::int64_t rows = 1; rows <= 4096; rows *= 2)
    for (std::int64_t cols = 128; cols <= 262144; cols *= 2)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        ++keys;
        upper_bits.insert(SoftmaxKey(memory, memory + 16, SoftmaxProblem::contiguous(rows, cols, dtype), false).hash() >>
                          54);
      }
  // On average, 312 random keys occupy 269 of 1024 slots.
  EXPECT_GT(upper_bits.size(), static_cast<std::size_t>(keys) * 3 / 4);
}

TEST(SoftmaxOptionsKey, HashDistributesShapesOfRealModels) {
  std::set<std::uint64_t> upper_bits;
  int keys = 0;
  alignas(64) const std::byte memory[64] = {};
  SoftmaxBackwardProblem problem;
  for (problem.rows = 1; problem.rows <= 4096; problem.rows *= 2)
    for (problem.cols = 128; problem.cols <= 262144; problem.cols *= 2)
      for (const bool causal : {false, true}) {
        ++keys;
        problem.options.causal = causal;
        problem.options.scale = 0.125;
        upper_bits.insert(SoftmaxOptionsKey(memory, memory + 16, memory + 32, problem, false, {}).hash() >> 54);
      }
  EXPECT_GT(upper_bits.size(), static_cast<std::size_t>(keys) * 3 / 4);  // 312 keys, as above
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
