// Shapes that change from call to call: what a new length needs, tables with a capacity, memory.

#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <thread>

#include "api/dispatch/plan_table.h"
#include "api/engine/compile_ahead.h"
#include "tests/api/engine/scripted_engine.h"

namespace tunesmith {
namespace {

using fakes::backward_of;
using fakes::decode;
using fakes::expect_error;
using fakes::far_arrays;
using fakes::layer_norm_of;
using fakes::ScriptedEngine;
using fakes::with_share;

TEST(NewLengths, NeedNeitherCacheNorCompilerNorLoader) {
  ScriptedEngine scripted(with_share(1, 0));
  Engine& engine = *scripted.engine;
  const auto prepare_ms = [&](std::int64_t seq_kv) {
    const Phases& phases = engine.prepare(decode(seq_kv)).state().phases;
    return phases.select_ms + phases.tune_ms + phases.digest_ms + phases.lookup_ms + phases.load_ms;
  };
  EXPECT_GT(prepare_ms(1600), 0);
  for (std::int64_t seq_kv = 1601; seq_kv < 1700; ++seq_kv) EXPECT_EQ(prepare_ms(seq_kv), 0) << seq_kv;
  EXPECT_EQ(scripted.device->loads, 1);
  EXPECT_EQ(engine.parts().plans->modules.size(), 1u);
}

// In modes that do not tune on first use, too, and for every kind of operation: a known bucket needs no work but to bind.
TEST(NewLengths, OfEveryOperationNeedTheLoadedModuleOnly) {
  constexpr std::int64_t first = 1600, last = 1620;
  const auto loss = [](std::int64_t rows) {
    CrossEntropyProblem problem = CrossEntropyProblem::contiguous(rows, 1000, DType::bf16);
    problem.gradient = Gradient::separate;
    return to_problem(problem);
  };
  const auto loss_backward = [](std::int64_t rows) {
    return to_problem(CrossEntropyBackwardProblem::contiguous(rows, 1000, DType::bf16));
  };
  const auto attention_backward = [](std::int64_t seq) { return to_problem(backward_of(seq)); };
  const auto layer_norm = [](std::int64_t rows) { return layer_norm_of(rows, 1000); };
  const auto strided = [](std::int64_t rows) {
    SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, 20, DType::f32);
    problem.inner = 12;
    return to_problem(problem);
  };
  const std::vector<std::function<Problem(std::int64_t)>> problems{loss, loss_backward, attention_backward, layer_norm,
                                                                   strided};
  for (const Mode mode : {Mode::off, Mode::later})
    for (const Specialize specialize : {Specialize::automatic, Specialize::exact})
      for (const auto& problem_of : problems) {
        EngineOptions options = fakes::in_mode(mode);
        options.compile_ahead_jobs = 0;
        ScriptedEngine scripted(options);
        const auto prepare_ms = [&](std::int64_t length) {
          const Plan plan = scripted.engine->prepare(problem_of(length), {.specialize = specialize});
          const Phases& phases = plan.state().phases;
          return phases.select_ms + phases.tune_ms + phases.digest_ms + phases.lookup_ms + phases.load_ms;
        };
        EXPECT_GT(prepare_ms(first), 0);
        for (std::int64_t length = first + 1; length < last; ++length)
          ASSERT_EQ(prepare_ms(length), 0) << problem_of(length).text() << ", mode " << name(mode);
        EXPECT_EQ(scripted.device->loads, 1);
        EXPECT_TRUE(scripted.tuned.empty());
      }
}

TEST(Capacity, PlansThatTheCallerHoldsStayValid) {
  EngineOptions options = fakes::in_mode(Mode::off);
  options.plan_capacity = 16;
  ScriptedEngine scripted(options);
  Engine& engine = *scripted.engine;
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(2, 8, DType::f32);
  const Plan kept = engine.prepare(problem);
  const AttentionArrays arrays = far_arrays();
  for (std::int64_t seq_kv = 1; seq_kv <= 200; ++seq_kv) {
    engine.run(decode(seq_kv), arrays);
    EXPECT_LE(engine.parts().plans->plans.size(), 17u);
    EXPECT_LE(engine.parts().plans->calls.size(), 16u);
  }
  std::array<float, 32> memory{};
  kept.launch(memory.data(), memory.data() + 16);
  EXPECT_FLOAT_EQ(memory[16], 0.125f);
  EXPECT_NE(&kept.state(), &engine.prepare(problem).state()) << "it had been dropped";
}

TEST(Capacity, ExistingPlansWorkDuringACaptureAfterOthersWereDropped) {
  EngineOptions options = fakes::in_mode(Mode::off);
  options.plan_capacity = 8;
  ScriptedEngine scripted(options);
  Engine& engine = *scripted.engine;
  const AttentionArrays arrays = far_arrays();
  for (std::int64_t seq_kv = 1; seq_kv <= 50; ++seq_kv) engine.run(decode(seq_kv), arrays);
  const int allocations = scripted.device->allocations, launches = scripted.device->launches;
  scripted.device->capturing = true;
  engine.run(decode(50), arrays);
  EXPECT_GT(scripted.device->launches, launches);
  EXPECT_EQ(scripted.device->allocations, allocations);
  expect_error([&] { engine.run(decode(1), arrays); }, ErrorCode::capturing, {"capture"});
}

TEST(Capacity, OtherStreamsDropPlansDuringACapture) {
  EngineOptions options = fakes::in_mode(Mode::off);
  options.plan_capacity = 8;
  ScriptedEngine scripted(options);
  Engine& engine = *scripted.engine;
  const AttentionArrays arrays = far_arrays();
  std::array<std::byte, 2> streams{};
  Stream const captured = &streams[0], other = &streams[1];
  const Plan held = engine.prepare(SoftmaxProblem::contiguous(2, 8, DType::f32));
  std::array<float, 32> memory{};
  held.launch(memory.data(), memory.data() + 16, captured);
  engine.run(decode(6001), arrays, captured);
  scripted.device->captured = captured;
  engine.run(decode(6001), arrays, captured);
  std::jthread([&] {
    for (std::int64_t seq_kv = 1; seq_kv <= 200; ++seq_kv) engine.run(decode(seq_kv), arrays, other);
  }).join();
  EXPECT_LE(engine.parts().plans->calls.size(), 8u);
  const int launches = scripted.device->launches;
  memory[16] = 0;
  held.launch(memory.data(), memory.data() + 16, captured);
  EXPECT_GT(scripted.device->launches, launches);
  EXPECT_FLOAT_EQ(memory[16], 0.125f);
  expect_error([&] { engine.run(decode(6001), arrays, captured); }, ErrorCode::capturing, {"capture"});
  scripted.device->captured = nullptr;
  engine.run(decode(6001), arrays, captured);
}

// Each plan would hold four pieces of its own otherwise: for 200 training lengths, gigabytes.
TEST(Capacity, BackwardPlansShareWorkspaces) {
  constexpr std::int64_t lengths = 200, step = 20;  // up to 4000: the float32 sums of dq are part of it
  for (const bool deterministic : {false, true})
    for (const DType dtype : {DType::bf16, DType::f32}) {
      ScriptedEngine scripted(fakes::in_mode(Mode::off));
      std::vector<Plan> held;
      std::set<std::int64_t> sizes;
      for (std::int64_t i = 1; i <= lengths; ++i) {
        AttentionBackwardProblem problem = backward_of(i * step);
        problem.dtype = dtype;
        problem.deterministic = deterministic;
        held.push_back(scripted.engine->prepare(problem));
        sizes.insert(held.back().state().executable->plan().workspace_bytes);
      }
      const auto largest = static_cast<std::uint64_t>(*sizes.rbegin());
      EXPECT_GE(sizes.size(), 8u);
      EXPECT_GT(largest, lengths * step * 8 * 4);
      // Two size classes an octave, from 64 KiB on. The sizes of all are a sum of two geometric series.
      const auto classes = 2 * (std::bit_width(largest) - 16) + 1;
      EXPECT_LE(scripted.device->allocations, static_cast<int>(Workspaces::prepared) * classes);
      EXPECT_LE(scripted.device->allocated_bytes, Workspaces::prepared * (largest * 7 / 2 + (64 << 10)) * 3 / 2);
    }
}

TEST(Capacity, MemoryDoesNotGrowWithTheNumberOfShapes) {
#ifdef NDEBUG
  constexpr std::int64_t shapes = 1'000'000, warm = 20'000;
#else
  constexpr std::int64_t shapes = 20'000, warm = 2000;  // tunesmith_host_calls --shapes 1000000 calls a million
#endif
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "the allocator of this sanitizer does not report its size";
  EngineOptions options = fakes::in_mode(Mode::tune);
  options.tune_share = 1;
  options.plan_capacity = 256;
  ScriptedEngine scripted(options);
  const AttentionArrays arrays = far_arrays();
  const auto host_bytes = [&] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd - scripted.device->allocated_bytes;
  };
  std::size_t warm_bytes = 0;
  int warm_allocations = 0;
  std::set<std::uint64_t> buckets;  // of batch * seq_q; the buckets of seq_kv and seq_q do not change
  for (std::int64_t i = 0; i < shapes; ++i) {
    AttentionProblem problem = decode(6145 + i % 2000);  // all distinct
    problem.batch = 65 + i / 2000 % 64;
    problem.seq_q = 9 + i / 128'000;
    buckets.insert(std::bit_ceil(static_cast<std::uint64_t>(problem.batch * problem.seq_q)));
    scripted.engine->run(problem, arrays);
    if (i == warm) {
      warm_bytes = host_bytes();
      warm_allocations = scripted.device->allocations;
    }
  }
  EXPECT_EQ(scripted.tuned.size(), buckets.size());
  EXPECT_LT(host_bytes(), warm_bytes + (std::size_t{1} << 20));
  EXPECT_LE(scripted.device->allocations, warm_allocations + 8) << "workspaces";
}

// Lengths of attention and widths of softmax. Some are used so often that they get kernels of their own, others are compiled
// ahead.
TEST(ChangingShapes, ManyThreads) {
  constexpr int threads = 64, calls = 100;
  constexpr std::int64_t rows = 2, max_cols = 1600;
  // Fewer than the 300 lengths and 400 widths, so that calls are dropped; more than the keys of widths, whose uses count.
  constexpr std::size_t capacity = 450;
  EngineOptions options = with_share(0.1, 5);
  options.plan_capacity = capacity;
  options.exact_after = 40;
  options.compile_ahead_jobs = 4;
  ScriptedEngine scripted(options);
  const AttentionArrays arrays = far_arrays();
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (int t = 0; t < threads; ++t)
      running.emplace_back([&scripted, &arrays, &wrong, t] {
        std::vector<float> x(rows * max_cols, 0.0f), y(x.size());
        for (int i = 0; i < calls; ++i) {
          scripted.engine->run(decode(1 + (t * 7 + i * 13) % 300), arrays);
          // Every other width is one of five.
          const std::int64_t cols = i % 2 == 0 ? 4 * (1 + i % 5) : 4 * (1 + (t * 11 + i * 17) % (max_cols / 4));
          scripted.engine->softmax(x.data(), y.data(), SoftmaxProblem::contiguous(rows, cols, DType::f32));
          const auto last = static_cast<std::size_t>(rows * cols - 1);
          if (std::fabs(y[last] * static_cast<float>(cols) - 1) > 1e-5f) ++wrong;
          if (i % 50 == 0) scripted.now_s = scripted.now_s + 1;
          if (i == calls / 2) scripted.engine->tune_pending(0);
        }
      });
  }
  scripted.engine->parts().compile_ahead->wait();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(scripted.device->launches, 2 * threads * calls);
  EXPECT_LE(scripted.engine->parts().plans->calls.size(), capacity);
  EXPECT_EQ(scripted.engine->tuning().tuned_keys, static_cast<std::int64_t>(scripted.tuned.size()));
  std::set<std::int64_t> of_their_own;
  for (const std::int64_t cols : {4, 8, 12, 16, 20})
    if (scripted.engine->prepare(SoftmaxProblem::contiguous(rows, cols, DType::f32)).capacity() == 0)
      of_their_own.insert(cols);
  EXPECT_EQ(of_their_own.size(), 5u);
}

}  // namespace
}  // namespace tunesmith
