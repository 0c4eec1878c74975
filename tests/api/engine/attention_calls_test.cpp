// Errors of calls of attention, and which calls share a plan. A scripted compiler shows that errors come before any work.

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "api/dispatch/plan_table.h"
#include "tests/api/engine/fakes.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

using fakes::expect_error;

class AttentionCalls : public testing::Test {
 protected:
  AttentionCalls() {
    problem_.batch = problem_.heads = 2;
    problem_.seq_q = 3;
    problem_.head_dim = 8;
    problem_.dtype = DType::f32;
  }
  void call(AttentionArrays given) {
    given.q = q_;
    given.k = k_;
    given.v = v_;
    engine_.run(problem_, given);
  }
  void rejects(const AttentionArrays& given, std::initializer_list<std::string_view> words) {
    expect_error([&] { call(given); }, ErrorCode::invalid_argument, words);
    EXPECT_EQ(fake_.compiler->compilations, 0);  // before any work
  }
  /// Checks the error after a change of the problem.
  void rejects(const std::function<void(AttentionProblem&)>& change, std::initializer_list<std::string_view> words) {
    const AttentionProblem before = problem_;
    change(problem_);
    rejects(arrays_, words);
    problem_ = before;
  }

  fakes::FakeEngine fake_{fakes::in_mode(Mode::off)};
  Engine& engine_ = *fake_.engine;
  std::vector<float> memory_ = std::vector<float>(1024);
  float *q_ = memory_.data(), *k_ = q_ + 128, *v_ = q_ + 256;
  const std::int32_t* starts_ = reinterpret_cast<const std::int32_t*>(q_ + 384);
  AttentionArrays arrays_{.o = q_ + 512, .lse = q_ + 640};
  AttentionProblem problem_;
};

TEST_F(AttentionCalls, ErrorsNameMissingArrays) {
  for (float** const array : {&q_, &k_, &v_}) {
    float* const before = *array;
    *array = nullptr;
    rejects(arrays_, {array == &q_ ? "q" : array == &k_ ? "k" : "v", "is a null pointer"});
    *array = before;
  }
  rejects({.lse = arrays_.lse}, {"o is a null pointer"});
  rejects([](auto& p) { p.alibi = true; }, {"alibi_slopes is a null pointer; expected device memory"});
  rejects([](auto& p) { p.sinks = true; }, {"sinks is a null pointer; expected device memory"});
  rejects([](auto& p) { p.varlen = true; }, {"cu_seqlens_q is a null pointer; expected device memory"});
  AttentionArrays half = arrays_;
  half.cu_seqlens_q = starts_;
  rejects(half, {"cu_seqlens_kv is a null pointer; expected device memory"});
  half.cu_seqlens_q = nullptr;
  half.cu_seqlens_kv = starts_;
  rejects(half, {"cu_seqlens_q is a null pointer; expected device memory"});
}

TEST_F(AttentionCalls, ErrorsNameInvalidFields) {
  rejects([](auto& p) { p.kv_heads = 4; }, {"heads is 2 and kv_heads is 4", "multiple"});
  rejects([](auto& p) { p.dtype = DType::i64; }, {"dtype is 'i64'", "f32"});
  rejects([](auto& p) { p.o_strides.head = 1; }, {"a stride of o is 1", "share memory"});
  AttentionArrays given = arrays_;
  given.lse = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(arrays_.lse) + 2);
  rejects(given, {"lse is at", "f32", "4 bytes"});
  given = arrays_;
  given.cu_seqlens_q = given.cu_seqlens_kv = starts_;
  rejects(given, {"total_q is missing", "needs total_q and total_kv"});  // nothing else tells it
  problem_.total_q = 7;
  problem_.total_kv = 1;
  rejects({.o = arrays_.o}, {"total_q is 7", "only with varlen=1"});  // without cu_seqlens
  rejects(given, {"total_q is 7", "no more than 6"});
  problem_.total_q = 1;
  problem_.q_strides.batch = 64;
  rejects(given, {"q_batch_stride", "packed"});
}

TEST_F(AttentionCalls, OnlyEqualCallsShareAPlan) {
  call(arrays_);
  problem_.kv_heads = 2;     // the default
  problem_.seq_kv = 3;       //
  problem_.head_dim_v = 8;   //
  problem_.q_alignment = 4;  // the address determines it
  call(arrays_);
  call({.o = arrays_.o});
  EXPECT_EQ(fake_.compiler->compilations, 1);
  EXPECT_EQ(engine_.parts().plans->plans.size(), 1u);
  AttentionArrays given = arrays_;
  given.sinks = k_;
  call(given);
  EXPECT_EQ(fake_.compiler->compilations, 2);
  problem_.batch = 1;  // the same source
  call(given);
  EXPECT_EQ(fake_.compiler->compilations, 2);
  EXPECT_EQ(engine_.parts().plans->plans.size(), 3u);
}

TEST_F(AttentionCalls, PlansDescribeTheirArrays) {
  const Plan plan = engine_.prepare(problem_);
  const ArrayInfo& q = plan.arrays().front();
  EXPECT_EQ(q.name, "q");
  EXPECT_EQ(q.alignment_field, "q_alignment");
  EXPECT_EQ(q.dims, (std::vector<std::string>{"batch", "seq_q", "heads", "head_dim"}));
  EXPECT_EQ(plan.arrays().data(), &q) << "made once";
}

}  // namespace
}  // namespace tunesmith
