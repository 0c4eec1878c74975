// Numerics of the generated kernels of attention's backward pass on the host executor compared with float64: with poisoned
// outputs, canaries, NaN in every gap between rows, and a second run that must be bitwise equal (tuner/verify.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/host_kernels.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/cases.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionBackwardHost : public test::OptimizedHostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention_backward", fields, device_.info(), config);
  }
};

TEST_F(AttentionBackwardHost, EveryProblemInEveryVariant) {
  std::vector<Case> cases = test::backward_cases(test::backward_problems(false), device_.info(), 0, 7);
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  EXPECT_EQ(variants, (std::set<std::string>{"simt", "mma"}));
  verify_covering(cases);
}

// The problems that are float32 above, in 16 bits on tensor cores.
TEST_F(AttentionBackwardHost, TensorCoresOnEveryOtherProblem) {
  const std::vector<Problem> seen = test::backward_problems(false);
  std::vector<Case> cases;
  for (const Problem& problem : test::backward_problems(true)) {
    if (std::ranges::find(seen, problem) != seen.end()) continue;
    const Config config = find_op("attention_backward").parse(problem)->default_config(device_.info());
    EXPECT_EQ(config.variant(), "mma");
    cases.push_back({problem, config});
  }
  EXPECT_GT(cases.size(), 5U);
  verify_covering(cases);
}

// Head dims that are not multiples of a vector, tile or swizzle, with configurations from the whole search space.
TEST_F(AttentionBackwardHost, TensorCoresFarFromTheDefault) {
  std::vector<Case> cases;
  std::set<std::int64_t> stages, rows, split;
  std::uint64_t seed = 1;
  for (const char* fields :
       {"seq_q=70,seq_kv=131,head_dim=40,heads=2,causal=bottom-right,dtype=f16", "seq_q=70,seq_kv=131,head_dim=8,dtype=bf16",
        "seq_q=129,seq_kv=127,head_dim=24,dtype=f16,causal=top-left,window_left=40",
        "seq_q=128,seq_kv=128,head_dim=72,head_dim_v=104,heads=2,kv_heads=1,dtype=bf16,softcap=20,alibi=1,dslopes=1",
        "seq_q=60,seq_kv=90,head_dim=104,head_dim_v=40,batch=4,varlen=1,total_q=100,total_kv=200,dtype=f16,sinks=1,dsinks=1",
        "seq_q=33,seq_kv=65,head_dim=256,head_dim_v=24,dtype=f16,window_right=3,q_alignment=2,k_alignment=4,v_alignment=8",
        "seq_q=65,seq_kv=49,head_dim=16,head_dim_v=256,heads=2,kv_heads=1,dtype=bf16,causal=bottom-right,dv_alignment=2"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    for (Config& config : test::sample_space(problem, device_.info(), 5, seed++)) {
      if (config.variant() != "mma") continue;
      const auto field = [&](const char* name) { return config.fields.integer(name); };
      stages.insert(field("kv_stages"));
      split.insert(field("kv_split"));
      rows.insert((field("kv_split") + 1) * field("kv_kept") / field("kv_warps"));
      cases.push_back({problem, std::move(config)});
    }
  }
  EXPECT_EQ(stages, (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(split, (std::set<std::int64_t>{0, 1}));
  EXPECT_EQ(rows, (std::set<std::int64_t>{16, 32}));
  verify_covering(cases);
}

TEST_F(AttentionBackwardHost, WholeSearchSpaceOfOneShape) {
  const Problem problem = test::normalized(
      "attention_backward", "seq_q=70,seq_kv=131,head_dim=40,heads=2,causal=bottom-right,alibi=1,dslopes=1,dtype=f32");
  std::vector<Case> cases;
  for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device_.info(), Effort::full))
    cases.push_back({problem, config});
  ASSERT_GT(cases.size(), 5U);
  verify_covering(cases);
}

// Verification uses a smaller problem with the same binary. Tests it with options and with large strides.
TEST_F(AttentionBackwardHost, VerificationProblemHasTheSameSource) {
  for (const char* fields :
       {"seq_q=8192,head_dim=64,heads=32,kv_heads=8,batch=2",
        "seq_q=4096,head_dim=64,heads=3,q_seq_stride=576,dq_seq_stride=576,dq_batch_stride=123456789,causal=bottom-right",
        "seq_q=4096,head_dim=64,heads=3,layout=bhsd,dk_head_stride=1000001,varlen=1,batch=4,total_q=9000,total_kv=9000",
        "seq_q=4096,head_dim=72,heads=16,softcap=30,alibi=1,sinks=1,dsinks=1,dslopes=1,dlse=1,dtype=f32"}) {
    const Case large = case_of(fields, "");
    const Case small{large.op().parse(large.problem)->verification_problem(), large.config};
    EXPECT_EQ(large.op().normalize(small.problem), small.problem) << small.text();
    EXPECT_EQ(render(*large.op().parse(large.problem), large.config), render(*small.op().parse(small.problem), small.config))
        << large.text();
  }
}

// The check against the reference detects results that one wrong key, or one option, changes.
TEST_F(AttentionBackwardHost, DetectsAWrongOption) {
  const Case right = case_of("seq_q=40,seq_kv=40,head_dim=16,heads=2,dlse=1,dtype=bf16", "");
  for (const char* option : {"window_left=38", "scale=0.26", "softcap=8", "causal=top-left", "accumulate=1"}) {
    const Case wrong =
        case_of(std::string("seq_q=40,seq_kv=40,head_dim=16,heads=2,dlse=1,dtype=bf16,") + option, right.config.text());
    with_executables({wrong}, [&](const Case&, const Executable& executable) {
      EXPECT_FALSE(verify(*right.op().parse(right.problem), executable, device_, 3).passed) << option;
    });
  }
  // Another mask of dropout.
  const std::string dropping = "seq_q=40,seq_kv=40,head_dim=16,heads=2,dtype=bf16,dropout=0.05,dropout_seed=";
  const Case seeded = case_of(dropping + "1", ""), other = case_of(dropping + "2", "");
  with_executables({other}, [&](const Case&, const Executable& executable) {
    EXPECT_TRUE(verify(*other.op().parse(other.problem), executable, device_, 3).passed);
    EXPECT_FALSE(verify(*seeded.op().parse(seeded.problem), executable, device_, 3).passed);
  });
  // A kernel that replaces the gradients instead of adding to them.
  const Case adding = case_of("seq_q=40,seq_kv=40,head_dim=16,heads=2,dlse=1,dtype=bf16,accumulate=1", "");
  with_executables({right}, [&](const Case&, const Executable& executable) {
    EXPECT_FALSE(verify(*adding.op().parse(adding.problem), executable, device_, 3).passed);
  });
}

// Every output is needed: an array that keeps its poison is detected.
TEST_F(AttentionBackwardHost, FullyMaskedQueriesAndKeysGiveZeros) {
  for (const char* dtype : {"f32", "bf16"}) {
    // The first 30 queries see no key; with a window, the first 29 keys see no query.
    const Case c = case_of(std::string("seq_q=50,seq_kv=20,head_dim=16,causal=bottom-right,dtype=") + dtype, "");
    with_executables({c}, [&](const Case&, const Executable& executable) {
      const test::AttentionArraysOnHost arrays(c.problem, 3);
      std::vector<void*> addresses;
      for (const HostArray& array : arrays.all()) {
        if (array.info.output) std::fill_n(array.data, array.info.extent_bytes(), std::byte{0xFF});
        addresses.push_back(array.data);
      }
      executable.enqueue(addresses, nullptr);
      for (std::int64_t i = 0; i < 30 * 16; ++i) ASSERT_EQ(arrays.real("dq", i), 0) << c.text() << " " << i;
      EXPECT_NE(arrays.real("dq", 31 * 16), 0) << c.text();
    });
    const Case window =
        case_of(std::string("seq_q=20,seq_kv=50,head_dim=16,window_left=0,window_right=5,dtype=") + dtype, "");
    with_executables({window}, [&](const Case&, const Executable& executable) {
      const test::AttentionArraysOnHost arrays(window.problem, 3);
      std::vector<void*> addresses;
      for (const HostArray& array : arrays.all()) {
        if (array.info.output) std::fill_n(array.data, array.info.extent_bytes(), std::byte{0xFF});
        addresses.push_back(array.data);
      }
      executable.enqueue(addresses, nullptr);
      for (const char* name : {"dk", "dv"})
        for (std::int64_t i = 0; i < 30 * 16; ++i) ASSERT_EQ(arrays.real(name, i), 0) << window.text() << " " << i;
      EXPECT_NE(arrays.real("dv", 31 * 16), 0) << window.text();
    });
  }
}

}  // namespace
}  // namespace tunesmith
