// Tuning of shapes that change from call to call: in buckets, within a share of the time, on request, and when it fails.

#include <gtest/gtest.h>

#include <tuple>

#include "api/dispatch/plan_table.h"
#include "tests/api/engine/scripted_engine.h"
#include "tunesmith/rms_norm.h"

namespace tunesmith {
namespace {

using fakes::backward_of;
using fakes::decode;
using fakes::expect_error;
using fakes::far_arrays;
using fakes::ScriptedEngine;
using fakes::with_share;

TEST(TuningBuckets, HaveTwoStepsAnOctave) {
  ScriptedEngine scripted(with_share(1, 0));
  const auto origin = [&](std::int64_t seq_kv) { return scripted.engine->prepare(decode(seq_kv)).origin(); };
  EXPECT_EQ(origin(1024), Origin::tuned);
  EXPECT_EQ(origin(769), Origin::exact);
  EXPECT_EQ(origin(768), Origin::tuned);
  EXPECT_EQ(origin(1025), Origin::tuned);
  EXPECT_EQ(origin(1536), Origin::exact);
  EXPECT_EQ(origin(1537), Origin::tuned);
  EXPECT_EQ(origin(2048), Origin::exact);
  EXPECT_EQ(scripted.tuned.size(), 4u);
  EXPECT_EQ(scripted.engine->tuning().tuned_keys, 4);
}

TEST(TuningBuckets, ColumnsOfRowKernelsAreTunedOneByOne) {
  ScriptedEngine scripted(with_share(1, 0));
  for (const std::int64_t cols : {1000, 1001, 1002}) {
    EXPECT_EQ(scripted.engine->prepare(SoftmaxProblem::contiguous(64, cols, DType::f32)).origin(), Origin::tuned);
    EXPECT_EQ(scripted.engine->prepare(SoftmaxProblem::contiguous(63, cols, DType::f32)).origin(), Origin::exact);
  }
}

/// What tuning results of a problem are stored under.
template <typename Typed>
auto tuning_key_of(const Typed& problem) {
  const KeyParts parts = find_op(problem.op()).parse(to_problem(problem))->key();
  return std::tuple(parts.problem_class, tuned_n_cols(parts), parts.rows_bucket);
}

TEST(TuningBuckets, OfQueriesEndAtPowersOfTwoUpTo1024) {
  const auto of_queries = [](std::int64_t seq_q) {
    AttentionBackwardProblem problem = backward_of(seq_q);
    problem.heads = 3;  // 3 * 2^k and the next numbers are in one bucket of rows
    problem.seq_kv = 4096;
    return problem;
  };
  const auto backward = [&](std::int64_t seq_q) { return tuning_key_of(of_queries(seq_q)); };
  const auto forward = [&](std::int64_t seq_q) {
    AttentionBackwardProblem backward_problem = of_queries(seq_q);
    AttentionProblem& problem = backward_problem;
    problem.varlen = true;  // so that no tile's padding counts
    problem.total_q = seq_q;
    problem.total_kv = 4096;
    return tuning_key_of(problem);
  };
  for (const std::int64_t end : {64, 512}) {
    EXPECT_NE(backward(end), backward(end + 1)) << end;
    EXPECT_NE(forward(end), forward(end + 1)) << end;
    EXPECT_EQ(backward(end - 1), backward(end)) << end;
    EXPECT_EQ(forward(end + 1), forward(end + 2)) << end;
  }
  EXPECT_EQ(backward(1024), backward(1025));
  EXPECT_EQ(forward(1024), forward(1025));
}

TEST(TuningBuckets, OfPaddedQueriesFollowTheTilesThatPadLess) {
  const auto key = [](std::int64_t seq_q) {
    AttentionProblem problem = decode(4096);
    problem.heads = 3;
    problem.seq_q = seq_q;
    return tuning_key_of(problem);
  };
  EXPECT_NE(key(512), key(513));
  EXPECT_EQ(key(513), key(576)) << "three tiles of 192 queries, or five of 128";
  EXPECT_NE(key(576), key(577)) << "four tiles of 192, or five of 128";
  EXPECT_EQ(key(577), key(640));
  EXPECT_NE(key(640), key(641)) << "six tiles of 128 are four of 192";
  EXPECT_EQ(key(641), key(682));
}

TEST(TuningBuckets, OfRowsOfAttentionEndAtPowersOfTwo) {
  const auto key = [](std::int64_t batch, std::int64_t heads, std::int64_t seq_q) {
    AttentionProblem problem = decode(4096);
    problem.batch = batch;
    problem.heads = heads;
    problem.seq_q = seq_q;
    return tuning_key_of(problem);
  };
  EXPECT_EQ(key(65, 1, 1), key(128, 1, 1));
  EXPECT_NE(key(64, 1, 1), key(65, 1, 1));
  EXPECT_NE(key(128, 1, 1), key(129, 1, 1));
  EXPECT_EQ(key(64, 2, 1), key(32, 4, 1)) << "heads without a group count like batch entries";
  EXPECT_NE(key(8, 4, 32), key(11, 3, 32)) << "1024 and 1056 rows";
  EXPECT_EQ(key(9, 4, 32), key(11, 3, 32));
}

TEST(TuningBuckets, OfStridedRowsHaveTwoStepsAnOctave) {
  const auto key = [](std::int64_t rows, std::int64_t inner) {
    SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, 100, DType::bf16);
    problem.inner = inner;
    return tuning_key_of(problem);
  };
  EXPECT_NE(key(4, 64), key(5, 64));
  EXPECT_EQ(key(5, 64), key(6, 64));
  EXPECT_NE(key(6, 64), key(7, 64));
  EXPECT_EQ(key(7, 64), key(8, 64));
  EXPECT_NE(key(8, 64), key(9, 64));
}

TEST(TuneShare, BoundsTuningOnFirstUse) {
  ScriptedEngine scripted(with_share(0.1, 7));
  Engine& engine = *scripted.engine;
  // Each key takes 2 s: the third ends within the allowance, the fourth would not.
  for (const std::int64_t seq_kv : {1000, 2000, 4000})
    EXPECT_EQ(engine.prepare(decode(seq_kv)).origin(), Origin::tuned) << seq_kv;
  const Plan untuned = engine.prepare(decode(8000));
  EXPECT_EQ(untuned.origin(), Origin::by_default);
  EXPECT_EQ(engine.prepare(decode(8001)).origin(), Origin::by_default);
  EXPECT_EQ(engine.prepare(decode(16000)).origin(), Origin::by_default);
  TuningStatus status = engine.tuning();
  EXPECT_EQ(status.tuned_keys, 3);
  EXPECT_EQ(status.tune_s, 6);
  EXPECT_EQ(status.pending_keys, 2);
  EXPECT_EQ(status.untuned_plans, 3);
  ASSERT_EQ(scripted.warnings.size(), 1u);
  EXPECT_NE(scripted.warnings[0].find("tune_share = 0.10"), std::string::npos) << scripted.warnings[0];

  // 8 s are the allowance and a tenth of the time once 10 s have passed.
  scripted.now_s = 109.9;
  EXPECT_EQ(engine.prepare(decode(8002)).origin(), Origin::by_default);
  scripted.now_s = 110.1;
  EXPECT_EQ(engine.prepare(decode(8003)).origin(), Origin::tuned);
  EXPECT_EQ(engine.prepare(decode(8000)).origin(), Origin::exact) << "plans made before are forgotten";
  EXPECT_EQ(untuned.origin(), Origin::by_default) << "a plan that the caller holds does not change";
  EXPECT_EQ(engine.prepare(decode(16000)).origin(), Origin::by_default);
  status = engine.tuning();
  EXPECT_EQ(status.tuned_keys, 4);
  EXPECT_EQ(status.pending_keys, 1);
}

TEST(TuneShare, ZeroAllowsNothingAndOneEverything) {
  ScriptedEngine none(with_share(0, 0)), all(with_share(1, 0));
  none.now_s = 1e6;
  EXPECT_EQ(none.engine->prepare(decode(1000)).origin(), Origin::by_default);
  for (std::int64_t seq_kv = 1; seq_kv <= 4096; seq_kv *= 2)
    EXPECT_EQ(all.engine->prepare(decode(seq_kv)).origin(), Origin::tuned);
}

TEST(TuneShare, PendingKeysAreTunedOnRequest) {
  ScriptedEngine scripted(with_share(0, 0));
  Engine& engine = *scripted.engine;
  const AttentionArrays arrays = far_arrays();
  for (const std::int64_t seq_kv : {1000, 2000, 4000}) engine.run(decode(seq_kv), arrays);
  EXPECT_EQ(engine.parts().plans->calls.size(), 3u);
  EXPECT_EQ(engine.tune_pending(3), 2u);
  EXPECT_EQ(engine.tuning().pending_keys, 1);
  EXPECT_EQ(engine.parts().plans->calls.size(), 1u) << "calls with tuned keys are prepared again";
  EXPECT_EQ(engine.tune_pending(0), 1u);
  EXPECT_EQ(engine.tune_pending(100), 0u);
  for (const std::int64_t seq_kv : {1000, 2000, 4000})
    EXPECT_EQ(engine.prepare(decode(seq_kv)).origin(), Origin::exact) << seq_kv;
  EXPECT_EQ(engine.tuning().tuned_keys, 3);
}

TEST(ModeLater, TunesOnRequestOnly) {
  EngineOptions options = fakes::in_mode(Mode::later);
  options.tune_share = 1;
  ScriptedEngine scripted(options);
  Engine& engine = *scripted.engine;
  const Plan untuned = engine.prepare(decode(1000));
  EXPECT_EQ(untuned.origin(), Origin::by_default);
  scripted.now_s = 1e6;
  EXPECT_EQ(engine.prepare(decode(1001)).origin(), Origin::by_default);
  EXPECT_EQ(engine.prepare(decode(2000)).origin(), Origin::by_default);
  EXPECT_TRUE(scripted.tuned.empty());
  EXPECT_TRUE(scripted.warnings.empty()) << "the caller asked for it";
  EXPECT_EQ(engine.tuning().pending_keys, 2);
  EXPECT_EQ(engine.tuning().untuned_plans, 3);
  EXPECT_EQ(engine.tune_pending(100), 2u);
  EXPECT_EQ(engine.tuning().pending_keys, 0);
  EXPECT_EQ(engine.prepare(decode(1000)).origin(), Origin::exact);
  EXPECT_EQ(engine.prepare(decode(2000)).origin(), Origin::exact);
  EXPECT_EQ(untuned.origin(), Origin::by_default) << "a plan that the caller holds does not change";
  EXPECT_EQ(engine.prepare(decode(4000), {.mode = Mode::tune}).origin(), Origin::tuned);
}

TEST(Tuning, FailuresLeaveTheDefaultAndOneWarning) {
  for (const ErrorCode code : {ErrorCode::out_of_memory, ErrorCode::device_failed, ErrorCode::cancelled,
                               ErrorCode::cache_failed, ErrorCode::io, ErrorCode::no_compiler}) {
    ScriptedEngine scripted(with_share(1, 0));
    scripted.failure = code;
    EXPECT_EQ(scripted.engine->prepare(decode(1000)).origin(), Origin::by_default) << name(code);
    EXPECT_EQ(scripted.engine->prepare(decode(1001)).origin(), Origin::by_default);
    EXPECT_EQ(scripted.tuned.size(), 1u) << "a failed key is not tried for every length";
    EXPECT_EQ(scripted.engine->prepare(decode(2000)).origin(), Origin::by_default);
    EXPECT_EQ(scripted.engine->tuning().failed_keys, 2);
    ASSERT_EQ(scripted.warnings.size(), 1u) << name(code);
    EXPECT_NE(scripted.warnings[0].find("scripted failure"), std::string::npos) << scripted.warnings[0];
  }
  ScriptedEngine wrong(with_share(1, 0));
  wrong.failure = ErrorCode::verification_failed;
  expect_error([&] { wrong.engine->prepare(decode(1000)); }, ErrorCode::verification_failed, {"scripted failure"});
}

}  // namespace
}  // namespace tunesmith
