// The lock-free table of one-shot calls, and its keys.

#include "tunesmith/dispatch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "api/dispatch/table.h"
#include "templates/op.h"
#include "tests/api/engine/call_key_of.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

using test::key_of;

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

/// Returns a copy of the key's value, or nothing.
template <typename Key>
std::optional<std::uint64_t> value_of(const DispatchTable<Key, std::uint64_t>& table, std::uint64_t key) {
  const auto reading = table.read();
  const std::uint64_t* const value = reading.find(Key{key});
  return value == nullptr ? std::nullopt : std::optional(*value);
}

TYPED_TEST(DispatchTableOf, FindsWhatWasInsertedAndNothingElse) {
  DispatchTable<TypeParam, std::uint64_t> table(1000);
  for (std::uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(value_of(table, i), std::nullopt);
    table.insert({i}, i + 1);
  }
  EXPECT_EQ(table.size(), 500u);
  for (std::uint64_t i = 0; i < 500; ++i) EXPECT_EQ(value_of(table, i), i + 1);
  EXPECT_EQ(value_of(table, 500), std::nullopt);
}

TYPED_TEST(DispatchTableOf, KeepsTheFirstValueOfAKey) {
  DispatchTable<TypeParam, std::uint64_t> table(1000);
  table.insert({7}, 1);
  table.insert({7}, 2);
  EXPECT_EQ(value_of(table, 7), 1u);
  EXPECT_EQ(table.size(), 1u);
}

TYPED_TEST(DispatchTableOf, DropsTheLeastRecentlyUsedBeyondItsCapacity) {
  constexpr std::uint64_t capacity = 64;
  DispatchTable<TypeParam, std::uint64_t> table(capacity);
  for (std::uint64_t i = 0; i < 10 * capacity; ++i) {
    table.insert({i}, i);
    EXPECT_EQ(value_of(table, i), i);
    EXPECT_EQ(value_of(table, 0), 0u) << "in use, at " << i;
    EXPECT_LE(table.size(), capacity);
  }
  EXPECT_GE(table.size(), capacity * 3 / 4);
  EXPECT_EQ(value_of(table, 1), std::nullopt);
  EXPECT_EQ(table.unreleased(), 0u);
}

TYPED_TEST(DispatchTableOf, ErasesWhatMatches) {
  DispatchTable<TypeParam, std::uint64_t> table(1000);
  for (std::uint64_t i = 0; i < 100; ++i) table.insert({i}, i);
  table.erase_if([](std::uint64_t value) { return value % 2 == 0; });
  EXPECT_EQ(table.size(), 50u);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(value_of(table, i).has_value(), i % 2 == 1);
}

TEST(DispatchTables, KeepDroppedValuesWhileSomebodyReads) {
  const auto watched = std::make_shared<int>(1);
  DispatchTable<Number, std::shared_ptr<int>> table(8);
  table.insert({1}, watched);
  {
    const auto reading = table.read();
    const std::shared_ptr<int>* const found = reading.find(Number{1});
    ASSERT_NE(found, nullptr);
    table.erase_if([](const std::shared_ptr<int>&) { return true; });
    EXPECT_EQ(table.read().find(Number{1}), nullptr);
    EXPECT_EQ(**found, 1);
    EXPECT_EQ(watched.use_count(), 2);
    EXPECT_EQ(table.unreleased(), 1u);
  }
  table.insert({2}, watched);  // a writer releases what its predecessors left
  EXPECT_EQ(watched.use_count(), 2);
  EXPECT_EQ(table.unreleased(), 0u);
}

TYPED_TEST(DispatchTableOf, ReadersSeeWholeEntriesWhileWritersInsertAndDrop) {
  constexpr std::uint64_t count = 4000, capacity = 200;
  // A value that has been destroyed would read as something else.
  struct Checked {
    explicit Checked(std::uint64_t of) : value(std::make_unique<std::uint64_t>(of)) {}
    std::unique_ptr<std::uint64_t> value;
  };
  DispatchTable<TypeParam, Checked> table(capacity);
  std::atomic<std::uint64_t> inserted{0};
  std::atomic<int> wrong{0};
  const auto read = [&](std::uint64_t seed) {
    while (inserted.load(std::memory_order_acquire) < count) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      const std::uint64_t known = inserted.load(std::memory_order_acquire);
      const std::uint64_t key = known - std::min(known, (seed >> 33) % 300);
      const auto reading = table.read();
      const Checked* const found = reading.find(TypeParam{key});
      if (found != nullptr && *found->value != key) ++wrong;
    }
  };
  {
    std::jthread first(read, 1), second(read, 2);
    for (std::uint64_t i = 0; i < count; ++i) {
      table.insert({i}, Checked(i));
      inserted.store(i + 1, std::memory_order_release);
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(table.size(), capacity);
}

SoftmaxProblem masked(SoftmaxMask::Kind kind) {
  SoftmaxProblem problem = SoftmaxProblem::contiguous(8, 16, DType::f32);
  problem.options.mask.kind = kind;
  return problem;
}

/// The problem that a call's plan is kept by.
template <typename Problem>
std::string plan_of(const Problem& asked, const typename Problem::Arrays& arrays) {
  const auto problem = to_problem(with_addresses(asked, arrays));
  return find_op(problem.op).normalize(problem).text();
}

TEST(CallKeys, OfCallsThatDifferInNothingLeadToOnePlan) {
  alignas(64) std::byte memory[256];
  SoftmaxProblem base = SoftmaxProblem::contiguous(8, 16, DType::f32);
  const SoftmaxArrays arrays{.x = memory, .y = memory + 128};
  const CallKey key = key_of(base, arrays);
  const std::string plan = plan_of(base, arrays);
  EXPECT_EQ(key, key_of(base, {.x = memory + 16, .y = memory + 64}));  // 16 bytes are sufficient
  base.x_alignment = base.y_alignment = 4;                             // the addresses determine it
  EXPECT_EQ(key, key_of(base, arrays));
  EXPECT_EQ(plan, plan_of(base, arrays));
  base.x_row_stride = base.y_row_stride = 16;  // as if they were absent
  base.out_dtype = DType::f32;
  base.in_place = true;  // the addresses determine it
  EXPECT_EQ(plan, plan_of(base, arrays));

  SoftmaxProblem kept = masked(SoftmaxMask::Kind::keep);
  const SoftmaxArrays with_mask{.x = memory, .y = memory + 64, .mask = memory + 128};
  const std::string kept_plan = plan_of(kept, with_mask);
  kept.options.mask.row_stride = 16;
  kept.options.mask.inner = 8;
  kept.options.mask.alignment = 1;
  EXPECT_EQ(kept_plan, plan_of(kept, with_mask));
}

TEST(CallKeys, GivenArraysSwitchOptionsOn) {
  alignas(64) std::byte memory[256];
  SoftmaxProblem problem = SoftmaxProblem::contiguous(8, 16, DType::f32);
  const SoftmaxArrays with{.x = memory, .y = memory + 64, .valid_cols = memory + 128};
  EXPECT_FALSE(key_of(problem, with) == key_of(problem, {.x = memory, .y = memory + 64}));
  const std::string given = plan_of(problem, with);
  EXPECT_NE(given, plan_of(problem, {.x = memory, .y = memory + 64}));
  problem.options.valid_cols = true;
  EXPECT_EQ(given, plan_of(problem, with));
}

TEST(CallKeys, HashDistributesShapesOfRealModels) {
  std::set<std::uint64_t> plain, with_options;
  int keys = 0;
  alignas(64) std::byte memory[64] = {};
  for (std::int64_t rows = 1; rows <= 4096; rows *= 2)
    for (std::int64_t cols = 128; cols <= 262144; cols *= 2)
      for (const bool other : {false, true}) {
        ++keys;
        const SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, other ? DType::bf16 : DType::f32);
        plain.insert(key_of(problem, {.x = memory, .y = memory + 16}).hash() >> 54);
        SoftmaxBackwardProblem gradient = SoftmaxBackwardProblem::contiguous(rows, cols, DType::f32);
        gradient.options.causal = other;
        gradient.options.scale = 0.125;
        with_options.insert(key_of(gradient, {.dy = memory, .y = memory + 16, .dx = memory + 32}).hash() >> 54);
      }
  // On average, 312 random keys occupy 269 of 1024 slots.
  EXPECT_GT(plain.size(), static_cast<std::size_t>(keys) * 3 / 4);
  EXPECT_GT(with_options.size(), static_cast<std::size_t>(keys) * 3 / 4);
}

TEST(AlignmentClass, IsTheLargestPowerOfTwoUpTo16) {
  const auto at = [](std::uintptr_t address) { return alignment_class(reinterpret_cast<const void*>(address)); };
  EXPECT_EQ(at(1), 1);
  EXPECT_EQ(at(6), 2);
  EXPECT_EQ(at(12), 4);
  EXPECT_EQ(at(24), 8);
  EXPECT_EQ(at(48), 16);
  EXPECT_EQ(at(4096), 16);
  EXPECT_EQ(at(0), 16);
}

}  // namespace
}  // namespace tunesmith
